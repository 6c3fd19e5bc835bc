#!/usr/bin/env python3
"""Draws window and backlog over time, Linux's and ours, one SVG for each cell.

    plots.py FOLDER OUT CELL... : FOLDER holds CELL.linux.csv (tcp.py --series) and CELL.ours.csv (the test `series`)
"""
import csv
import sys

WIDTH, HEIGHT, LEFT, TOP, GAP = 720, 150, 64, 24, 34
COLOURS = {"linux": "#b03a2e", "ours": "#1f618d"}


def load(path):
    return [tuple(map(float, row)) for row in csv.reader(open(path))]


def nice(largest):
    """A round number at or above it."""
    step = 1
    while True:
        for factor in (1, 1.5, 2, 3, 4, 5, 6, 8):
            if factor * step >= largest:
                return factor * step
        step *= 10


def panel(top, title, column, series):
    end = max(rows[-1][0] for rows in series.values())
    height = nice(max(row[column] for rows in series.values() for row in rows) / 1000 or 1)
    x, y = lambda at: LEFT + at / end * WIDTH, lambda value: top + HEIGHT - value / 1000 / height * HEIGHT
    out = [f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
           f'<text x="{LEFT}" y="{top - 7}">{title}</text>']
    for part in (0, 0.5, 1):
        value = height * part
        out.append(f'<text x="{LEFT - 6}" y="{y(value * 1000) + 4:.0f}" text-anchor="end">{value:g}</text>')
    for second in range(0, int(end) + 1, 5):
        out.append(f'<text x="{x(second):.0f}" y="{top + HEIGHT + 15}" text-anchor="middle">{second}</text>')
    for name, rows in series.items():
        points = " ".join(f"{x(row[0]):.1f},{y(row[column]):.1f}" for row in rows)
        out.append(f'<polyline fill="none" stroke="{COLOURS[name]}" stroke-width="1.3" stroke-opacity="0.8" points="{points}"/>')
    return out


def draw(cell, series):
    total = TOP + 2 * (HEIGHT + GAP) + 6
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 16} {total + TOP}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text x="{LEFT + WIDTH}" y="16" text-anchor="end">{cell}: '
           f'<tspan fill="{COLOURS["linux"]}">Linux 6.1</tspan>, <tspan fill="{COLOURS["ours"]}">ours</tspan></text>']
    out += panel(TOP + 4, "window of the first flow, kB", 1, series)
    out += panel(TOP + HEIGHT + GAP + 14, "backlog of the queue, kB; time in s", 2, series)
    return "\n".join(out + ["</svg>", ""])


def main():
    folder, target, cells = sys.argv[1], sys.argv[2], sys.argv[3:]
    for cell in cells:
        series = {name: load(f"{folder}/{cell}.{name}.csv") for name in COLOURS}
        with open(f"{target}/{cell}.svg", "w") as file:
            file.write(draw(cell, series))


main()
