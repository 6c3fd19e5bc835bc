#!/usr/bin/env python3
"""Boots the rig's simulated kernel and lets driver.py run job files in it.

    run.py RIG SEED JOB... : all JOBs in one boot; the folder of the first must hold the others, results appear beside them

RIG is a folder with `bin/linux-tt`, a User-Mode Linux 6.1 with all queueing disciplines built in and `time-travel=inf-cpu`
(work costs no time, waiting is skipped), whose random numbers come from the environment variable UML_SEED, and with
`sim-init.sh`, its first process: it mounts the folder `lab=` read-write and runs the script `job=`.
"""
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
rig, seed, jobs = os.path.abspath(sys.argv[1]), sys.argv[2], [os.path.abspath(job) for job in sys.argv[3:]]


def boot(folder, script, preload):
    """One run of the kernel. Its random numbers depend on its command line too, so that must always be the same."""
    environment = dict(os.environ, UML_SEED=seed, TMPDIR="/dev/shm")
    if preload:
        environment["LD_PRELOAD"] = preload
    command = [
        f"{rig}/bin/linux-tt", "mem=768M", "time-travel=inf-cpu", "time-travel-start=1000000000000000000", "umid=tautline",
        f"uml_dir={folder}/uml", "root=/dev/root", "rootflags=/", "rootfstype=hostfs", "ro", f"init={rig}/sim-init.sh",
        f"lab={folder}", f"job={script}", "con=null", "con0=fd:0,fd:1", "noreboot", "quiet",
    ]
    pin = ["nice", "-n", os.environ.get("UML_NICE", "0"), "taskset", "-c", os.environ.get("UML_CPU", "0")]
    limit = float(os.environ.get("LIMIT", "900"))
    return subprocess.run(pin + command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=limit, text=True,
                          errors="replace").stdout


def shim(folder):
    """For hosts with AMX; says why in its source."""
    library = f"{folder}/wide_registers.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, f"{here}/wide_registers.c", "-ldl"], check=True)
    return library


# A folder with a fixed name, for the command line's sake.
folder = f"{tempfile.gettempdir()}/tautline-validation-{os.environ.get('UML_CPU', '0')}{os.environ.get('TAUTLINE_RUN', '')}"
subprocess.run(["rm", "-rf", folder], check=True)
os.makedirs(folder)
script = f"{folder}/job.sh"
names = " ".join(f"$LAB/{os.path.basename(job)}" for job in jobs)
with open(script, "w") as s:
    s.write(f"python3 {here}/driver.py {names}\n")
for job in jobs:
    subprocess.run(["cp", job, folder], check=True)
wide = subprocess.run("grep -q amx_tile /proc/cpuinfo", shell=True).returncode == 0
console = boot(folder, script, shim(folder) if wide else None)
said = open(f"{folder}/out").read() if os.path.exists(f"{folder}/out") else console[-2000:]
print(said, end="")
for job in jobs:
    out = os.path.splitext(os.path.basename(job))[0] + ".out"
    if os.path.exists(f"{folder}/{out}"):
        subprocess.run(["cp", f"{folder}/{out}", os.path.dirname(job)], check=True)
subprocess.run(["rm", "-rf", folder], check=True)
sys.exit("FAILED" in said or not os.path.exists(os.path.splitext(jobs[0])[0] + ".out"))
