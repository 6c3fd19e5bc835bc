"""Runs the points on standard input, a line each, on a Dask cluster: `lab-dask.py tcp://host:8786 [LAB] < points.jsonl > results.jsonl`.

Each task is some lines, given to `lab sweep run -` on a worker, so many that it takes about half a second. LAB is the program's path;
workers that have no such file take `$LAB`, or `lab` from their PATH. A worker that dies loses nothing: its tasks go to others.
"""
import os, subprocess, sys, time

from distributed import Client, as_completed

SECONDS, RETRIES, MOST = 0.5, 3, 1000


def work(lines, lab):
    program = lab if os.access(lab, os.X_OK) else os.environ.get("LAB", "lab")
    began = time.monotonic()
    # The worker may itself be a task of a job array, which says nothing about these lines.
    command = [program, "sweep", "run", "-", "--jobs", "1", "--shard", "1/1"]
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True)
    if done.returncode < 0:
        raise RuntimeError(f"{program} was killed by signal {-done.returncode}")
    # What it says itself would be the same again; the points that did run are good.
    return len(lines), done.stdout, done.stderr[-2000:] if done.returncode else "", time.monotonic() - began


def main(address, lab="lab"):
    try:
        client = Client(address, timeout=20)
        client.wait_for_workers(1, timeout=60)
    except (OSError, TimeoutError, ValueError) as error:
        sys.exit(f"no cluster at {address}: {error or 'no worker came within 60 s'}")
    lines = [line for line in sys.stdin if line.strip()]
    running, batch, points, seconds, failed = as_completed(), 1, 0, 0.0, 0

    def fill():
        # Two tasks for each thread that there is now, so that batches can grow and late workers get some.
        while lines and running.count() < 2 * max(1, sum(client.nthreads().values())):
            some, lines[:] = lines[:batch], lines[batch:]
            running.add(client.submit(work, some, lab, pure=False, retries=RETRIES))

    fill()
    for future in running:
        try:
            # A result that its worker took along is made again by another; this waits for it.
            count, results, complaint, took = future.result()
        except Exception as error:
            count, results, complaint, took = 0, "", f"a task failed {RETRIES + 1} times: {error!r}", 0.0
        sys.stdout.write(results)
        sys.stdout.flush()
        if complaint:
            failed += 1
            print(complaint.strip(), file=sys.stderr)
        points, seconds = points + count, seconds + took
        if points:
            batch = max(1, min(MOST, round(SECONDS * points / seconds)))
        fill()
    client.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
