#!/usr/bin/env python3
"""Boots the rig's simulated kernel (see rig.py) and lets driver.py run job files in it.

    run.py RIG SEED JOB... : all JOBs in one boot; results appear beside them
"""
import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import rig  # noqa: E402

folder, seed, jobs = os.path.abspath(sys.argv[1]), sys.argv[2], [os.path.abspath(job) for job in sys.argv[3:]]
names = " ".join(f"$LAB/{os.path.basename(job)}" for job in jobs)
with rig.Boot(folder, seed, f"python3 {here}/driver.py {names}\n", jobs) as run:
    print(run.said, end="")
    for job in jobs:
        out = f"{run.folder}/{os.path.splitext(os.path.basename(job))[0]}.out"
        if os.path.exists(out):
            subprocess.run(["cp", out, os.path.dirname(job)], check=True)
    sys.exit("FAILED" in run.said or not os.path.exists(os.path.splitext(jobs[0])[0] + ".out"))
