//! QUIC without cryptography: the handshake of RFC 9001 §4 reduced to its flights, so that the tests
//! need no C toolchain. Transport parameters are exchanged, packets are only padded by a tag's length.

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use quinn::crypto::{
    AeadKey, ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey,
    HmacKey, KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn::{ConnectError, ConnectionId, Side};
use quinn_proto::TransportError;
use quinn_proto::transport_parameters::TransportParameters;

/// Length of AES-GCM's tag, and of a header-protection sample.
const TAG: usize = 16;

/// Keys of every kind.
pub(crate) struct Plain;

fn keys() -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(Plain),
            remote: Box::new(Plain),
        },
        packet: packet_keys(),
    }
}

fn packet_keys() -> KeyPair<Box<dyn PacketKey>> {
    KeyPair {
        local: Box::new(Plain),
        remote: Box::new(Plain),
    }
}

/// The next step of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Step {
    ClientHello,
    ServerHello,
    HandshakeKeys,
    ServerParameters,
    Finished,
    Done,
}

struct Handshake {
    side: Side,
    step: Step,
    parameters: Vec<u8>,
    peer: Option<TransportParameters>,
}

impl Handshake {
    fn start(side: Side, parameters: &TransportParameters) -> Box<dyn Session> {
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        Box::new(Self {
            side,
            step: Step::ClientHello,
            parameters: encoded,
            peer: None,
        })
    }

    fn read_parameters(&mut self, buffer: &[u8]) -> Result<(), TransportError> {
        let read = TransportParameters::read(self.side, &mut Cursor::new(buffer))?;
        self.peer = Some(read);
        Ok(())
    }
}

impl Session for Handshake {
    fn initial_keys(&self, _: &ConnectionId, _: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        // A client is done once it has the server's last flight, and then sends its own.
        let last = match self.side {
            Side::Client => Step::Finished,
            Side::Server => Step::Done,
        };
        self.step < last
    }

    fn read_handshake(&mut self, buffer: &[u8]) -> Result<bool, TransportError> {
        let (is_news, next) = match (self.side, self.step) {
            (Side::Server, Step::ClientHello) => (true, Step::ServerHello),
            (Side::Client, Step::ServerHello) => (false, Step::HandshakeKeys),
            (Side::Client, Step::ServerParameters) => (true, Step::Finished),
            (Side::Server, Step::Finished) => (false, Step::Done),
            _ => return Ok(false),
        };
        if is_news {
            self.read_parameters(buffer)?;
        }
        self.step = next;
        Ok(is_news)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let (flight, next): (&[u8], _) = match (self.side, self.step) {
            (Side::Client, Step::ClientHello) => {
                out.extend_from_slice(&self.parameters);
                self.step = Step::ServerHello;
                return None;
            }
            (Side::Server, Step::ServerHello) => (b"hello", Step::ServerParameters),
            (Side::Client, Step::HandshakeKeys) => (b"", Step::ServerParameters),
            (Side::Server, Step::ServerParameters) => (&self.parameters, Step::Finished),
            (Side::Client, Step::Finished) => (b"finished", Step::Done),
            _ => return None,
        };
        out.extend_from_slice(flight);
        self.step = next;
        Some(keys())
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(packet_keys())
    }

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        true
    }

    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

impl ClientConfig for Plain {
    fn start_session(
        self: Arc<Self>,
        _: u32,
        _: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Handshake::start(Side::Client, parameters))
    }
}

impl ServerConfig for Plain {
    fn initial_keys(&self, _: u32, _: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _: u32, _: &ConnectionId, _: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(
        self: Arc<Self>,
        _: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn Session> {
        Handshake::start(Side::Server, parameters)
    }
}

impl PacketKey for Plain {
    fn encrypt(&self, _: u64, _: &mut [u8], _: usize) {}

    fn decrypt(&self, _: u64, _: &[u8], payload: &mut bytes::BytesMut) -> Result<(), CryptoError> {
        let len = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        payload.truncate(len);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HeaderKey for Plain {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        TAG
    }
}

impl HmacKey for Plain {
    fn sign(&self, _: &[u8], signature: &mut [u8]) {
        signature.fill(7);
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }
}

impl HandshakeTokenKey for Plain {
    fn aead_from_hkdf(&self, _: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Self)
    }
}

impl AeadKey for Plain {
    fn seal(&self, _: &mut Vec<u8>, _: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], _: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        Ok(data)
    }
}
