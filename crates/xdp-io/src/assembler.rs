//! A small assembler for eBPF (RFC 9669): the instructions our XDP program needs, and jumps to
//! labels.

/// One eBPF instruction, laid out as the kernel reads it (RFC 9669 §3.1).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// Opcode: three bits of class, the rest depends on the class.
    pub(crate) opcode: u8,
    /// Destination and source register, four bits each.
    pub(crate) registers: u8,
    /// Offset of a jump in instructions, or of a load in bytes.
    pub(crate) offset: i16,
    /// Constant operand.
    pub(crate) immediate: i32,
}

const _: () = assert!(
    size_of::<Instruction>() == 8,
    "the kernel reads eight bytes per instruction"
);

/// The registers in use: R0 carries results, R1 to R3 arguments (lost by a call), R6 survives
/// calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R4 = 4,
    R6 = 6,
}

/// Width of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    /// Four bytes.
    Word = 0x00,
    /// Two bytes.
    Half = 0x08,
}

// Opcodes: class, operation and operand kind already joined (RFC 9669 §4 and §5).
pub(crate) const LOAD: u8 = 0x61;
pub(crate) const LOAD_WIDE: u8 = 0x18;
pub(crate) const MOVE: u8 = 0xbf;
pub(crate) const MOVE_CONSTANT: u8 = 0xb7;
pub(crate) const ADD_CONSTANT: u8 = 0x07;
pub(crate) const JUMP: u8 = 0x05;
pub(crate) const JUMP_IF_GREATER: u8 = 0x2d;
pub(crate) const JUMP_IF_EQUAL: u8 = 0x16;
pub(crate) const JUMP_IF_DIFFERENT: u8 = 0x56;
pub(crate) const CALL: u8 = 0x85;
pub(crate) const EXIT: u8 = 0x95;
/// As the source register of [`LOAD_WIDE`]: the constant is the file descriptor of a map (RFC 9669
/// §5.4).
pub(crate) const MAP_BY_FD: u8 = 1;

/// Builds a program. `Label` names the targets of jumps; jumps go forward or back.
#[derive(Debug)]
pub(crate) struct Assembler<Label> {
    code: Vec<Instruction>,
    places: Vec<(Label, usize)>,
    jumps: Vec<(usize, Label)>,
}

impl<Label: Copy + PartialEq + core::fmt::Debug> Assembler<Label> {
    pub(crate) fn new() -> Self {
        Self {
            code: Vec::new(),
            places: Vec::new(),
            jumps: Vec::new(),
        }
    }

    fn push(&mut self, opcode: u8, destination: u8, source: u8, offset: i16, immediate: i32) {
        let registers = if cfg!(target_endian = "little") {
            source << 4 | destination
        } else {
            destination << 4 | source
        };
        self.code.push(Instruction {
            opcode,
            registers,
            offset,
            immediate,
        });
    }

    /// Places the label at the next instruction.
    pub(crate) fn label(&mut self, label: Label) {
        self.places.push((label, self.code.len()));
    }

    /// `to = *(from + offset)`.
    pub(crate) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.push(LOAD | width as u8, to as u8, from as u8, offset, 0);
    }

    /// `to = from`.
    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        self.push(MOVE, to as u8, from as u8, 0, 0);
    }

    /// `to = value`.
    pub(crate) fn set(&mut self, to: Register, value: i32) {
        self.push(MOVE_CONSTANT, to as u8, 0, 0, value);
    }

    /// `to += value`.
    pub(crate) fn add(&mut self, to: Register, value: i32) {
        self.push(ADD_CONSTANT, to as u8, 0, 0, value);
    }

    /// `to` = the map behind a file descriptor. Two instructions long.
    pub(crate) fn load_map(&mut self, to: Register, fd: i32) {
        self.push(LOAD_WIDE, to as u8, MAP_BY_FD, 0, fd);
        self.push(0, 0, 0, 0, 0);
    }

    /// Jumps always.
    pub(crate) fn jump(&mut self, label: Label) {
        self.jump_by(JUMP, 0, 0, 0, label);
    }

    /// Jumps if `a > b`, unsigned, all 64 bits.
    pub(crate) fn jump_if_greater(&mut self, a: Register, b: Register, label: Label) {
        self.jump_by(JUMP_IF_GREATER, a as u8, b as u8, 0, label);
    }

    /// Jumps if the lower 32 bits of `a` equal `value`.
    pub(crate) fn jump_if_equal(&mut self, a: Register, value: u32, label: Label) {
        self.jump_by(JUMP_IF_EQUAL, a as u8, 0, value.cast_signed(), label);
    }

    /// Jumps if the lower 32 bits of `a` differ from `value`.
    pub(crate) fn jump_if_different(&mut self, a: Register, value: u32, label: Label) {
        self.jump_by(JUMP_IF_DIFFERENT, a as u8, 0, value.cast_signed(), label);
    }

    fn jump_by(&mut self, opcode: u8, destination: u8, source: u8, immediate: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(opcode, destination, source, 0, immediate);
    }

    /// `R0 = helper(R1, R2, R3, ..)`.
    pub(crate) fn call(&mut self, helper: i32) {
        self.push(CALL, 0, 0, 0, helper);
    }

    /// Ends the program with the verdict in R0.
    pub(crate) fn exit(&mut self) {
        self.push(EXIT, 0, 0, 0, 0);
    }

    /// The program, every jump resolved.
    ///
    /// # Panics
    /// If a jump names a label that was never placed, or one further away than 32 767 instructions.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let place = self.places.iter().find(|(name, _)| *name == label);
            let (_, target) = place.unwrap_or_else(|| panic!("label {label:?} was never placed"));
            let distance = *target as i64 - at as i64 - 1;
            self.code[at].offset = i16::try_from(distance)
                .expect("programs here are far shorter than a jump can reach");
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_count_from_the_next_instruction() {
        let mut asm = Assembler::new();
        asm.label("start");
        asm.jump("end");
        asm.set(Register::R0, 7);
        asm.jump("start");
        asm.label("end");
        asm.exit();
        let offsets: Vec<i16> = asm.finish().iter().map(|i| i.offset).collect();
        assert_eq!(offsets, [2, 0, -3, 0]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn encodings_match_the_standard() {
        let mut asm = Assembler::<()>::new();
        asm.load(Width::Half, Register::R3, Register::R2, 12);
        asm.load_map(Register::R1, 9);
        let code = asm.finish();
        assert_eq!(
            code[0],
            Instruction {
                opcode: 0x69,
                registers: 0x23,
                offset: 12,
                immediate: 0
            }
        );
        assert_eq!(
            code[1],
            Instruction {
                opcode: 0x18,
                registers: 0x11,
                offset: 0,
                immediate: 9
            }
        );
        assert_eq!(
            code[2],
            Instruction {
                opcode: 0,
                registers: 0,
                offset: 0,
                immediate: 0
            }
        );
    }

    #[test]
    #[should_panic(expected = "never placed")]
    fn a_missing_label_is_a_bug() {
        let mut asm = Assembler::new();
        asm.jump("nowhere");
        asm.finish();
    }
}
