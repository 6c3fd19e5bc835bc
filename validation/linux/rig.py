"""The rig: a User-Mode Linux 6.1 in simulated time, booted once for a script.

RIG is a folder with `bin/linux-tt`, a User-Mode Linux 6.1 with all queueing disciplines built in and `time-travel=inf-cpu`
(work costs no time, waiting is skipped), whose random numbers come from the environment variable UML_SEED, and with
`sim-init.sh`, its first process: it mounts the folder `lab=` read-write and runs the script `job=`.
"""
import os
import subprocess
import tempfile

here = os.path.dirname(os.path.abspath(__file__))


class Boot:
    """One run of the kernel with `script` beside copies of `files`; what it wrote is in `folder` until the end of the `with`."""

    def __init__(self, rig, seed, script, files=()):
        # Its random numbers depend on its command line too, so the folder's name must always be the same.
        lane = os.environ.get("UML_CPU", "0") + os.environ.get("TAUTLINE_RUN", "")
        self.folder = f"{tempfile.gettempdir()}/tautline-validation-{lane}"
        subprocess.run(["rm", "-rf", self.folder], check=True)
        os.makedirs(self.folder)
        for file in files:
            subprocess.run(["cp", file, self.folder], check=True)
        with open(f"{self.folder}/job.sh", "w") as file:
            file.write(f"RIG={rig}\n{script}")
        environment = dict(os.environ, UML_SEED=str(seed), TMPDIR="/dev/shm")
        if subprocess.run("grep -q amx_tile /proc/cpuinfo", shell=True).returncode == 0:
            environment["LD_PRELOAD"] = self.shim()
        command = [
            f"{rig}/bin/linux-tt", "mem=768M", "time-travel=inf-cpu", "time-travel-start=1000000000000000000", "umid=tautline",
            f"uml_dir={self.folder}/uml", "root=/dev/root", "rootflags=/", "rootfstype=hostfs", "ro",
            f"init={rig}/sim-init.sh", f"lab={self.folder}", f"job={self.folder}/job.sh", "con=null", "con0=fd:0,fd:1",
            "noreboot", "quiet",
        ]
        # The kernel's memory begins behind its program break. Where that lies is random unless -R forbids it, and with it the size
        # of the memory, the limits made from it (tcp_mem) and in the end which of two processes runs first.
        pin = ["nice", "-n", os.environ.get("UML_NICE", "0"), "setarch", "-R", "taskset", "-c", os.environ.get("UML_CPU", "0")]
        limit = float(os.environ.get("LIMIT", "900"))
        console = subprocess.run(pin + command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=limit,
                                 text=True, errors="replace").stdout
        said = f"{self.folder}/out"
        self.said = open(said).read() if os.path.exists(said) else console[-2000:]

    def shim(self):
        """For hosts with AMX; says why in its source."""
        library = f"{self.folder}/wide_registers.so"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, f"{here}/wide_registers.c", "-ldl"], check=True)
        return library

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["rm", "-rf", self.folder], check=True)
