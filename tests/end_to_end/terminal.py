#!/usr/bin/env python3
"""Runs a command on a pseudo terminal of its own and writes down what the terminal gets.

The command's stderr is the terminal, and so is its stdout unless a file is named for it. What is
written is one JSON object: the exit code, all characters that the terminal got, the characters that
stand on its screen at the end and at each event, and whether its modes are those from before.

Events are pairs of a text and an action. When the screen shows the text, the action is taken:
"press X" sends the character X to the terminal as a key would (^C is 0x03), "resize ROWSxCOLUMNS" is a
window that changes its size, "look" only keeps the screen.
"""
import argparse, fcntl, json, os, pty, re, select, struct, subprocess, sys, termios, time

PATIENCE_S = 60


class Screen:
    """A terminal's screen, as far as the command uses one. Whatever else comes is an error."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.lines = [[" "] * columns for _ in range(rows)]
        self.y = self.x = 0
        self.cursor_shown = True
        self.unknown = []
        self.rest = ""

    def feed(self, text):
        text = self.rest + text
        self.rest = ""
        position = 0
        while position < len(text):
            character = text[position]
            if character == "\x1b":
                match = re.match(r"\x1b\[([?0-9;]*)([A-Za-z])", text[position:])
                if not match:
                    if len(text) - position < 12:
                        self.rest = text[position:]
                    else:
                        self.unknown.append(repr(text[position:position + 12]))
                    return
                self.control(*match.groups())
                position += match.end()
                continue
            position += 1
            if character == "\r":
                self.x = 0
            elif character == "\n":
                self.next_line()
            elif character == "\t":
                self.x = min(self.columns - 1, self.x // 8 * 8 + 8)
            elif character == "\b":
                self.x = max(0, self.x - 1)
            elif character >= " ":
                if self.x == self.columns:
                    self.x = 0
                    self.next_line()
                self.lines[self.y][self.x] = character
                self.x += 1

    def next_line(self):
        if self.y + 1 < self.rows:
            self.y += 1
        else:
            self.lines = self.lines[1:] + [[" "] * self.columns]

    def control(self, parameters, command):
        count = int(parameters) if parameters.isdigit() else None
        if command == "m":
            pass
        elif command == "A":
            self.y = max(0, self.y - (count or 1))
        elif command == "B":
            self.y = min(self.rows - 1, self.y + (count or 1))
        elif command == "K" and not count:
            self.erase(self.y, self.x)
        elif command == "J" and not count:
            self.erase(self.y, self.x)
            for y in range(self.y + 1, self.rows):
                self.erase(y, 0)
        elif (parameters, command) in (("?25", "l"), ("?25", "h")):
            self.cursor_shown = command == "h"
        else:
            self.unknown.append(f"\x1b[{parameters}{command}")

    def erase(self, y, x):
        for place in range(x, self.columns):
            self.lines[y][place] = " "

    def resize(self, rows, columns):
        """Lines are cut, not broken anew; rows go at the top if the cursor would be lost."""
        lines = [(line + [" "] * columns)[:columns] for line in self.lines]
        while len(lines) > rows:
            if self.y + 1 < len(lines):
                lines.pop()
            else:
                lines.pop(0)
                self.y -= 1
        lines += [[" "] * columns for _ in range(rows - len(lines))]
        self.lines, self.rows, self.columns, self.x = lines, rows, columns, min(self.x, columns)

    def text(self):
        return [("".join(line)).rstrip() for line in self.lines]


def set_size(descriptor, rows, columns):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--stdout")
    parser.add_argument("--on", nargs=2, action="append", default=[], metavar=("TEXT", "ACTION"))
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    master, slave = pty.openpty()
    set_size(slave, options.rows, options.columns)
    before = termios.tcgetattr(slave)

    def own_terminal():
        os.setsid()
        fcntl.ioctl(2, termios.TIOCSCTTY, 0)

    stdout = open(options.stdout, "wb") if options.stdout else slave
    process = subprocess.Popen(options.command, stdin=slave, stdout=stdout, stderr=slave, preexec_fn=own_terminal)
    screen = Screen(options.rows, options.columns)
    output, seen, events = "", [], list(options.on)
    begun = time.monotonic()
    pending = b""
    while time.monotonic() - begun < PATIENCE_S:
        readable, _, _ = select.select([master], [], [], 0.05)
        if not readable:
            if process.poll() is not None:
                break
            continue
        data = pending + os.read(master, 65536)
        cut = len(data)
        while cut > 0 and cut > len(data) - 4 and not is_whole(data[:cut]):
            cut -= 1
        pending = data[cut:]
        text = data[:cut].decode(errors="replace")
        output += text
        screen.feed(text)
        while events and any(re.search(events[0][0], line) for line in screen.text()):
            seen.append(screen.text())
            action = events.pop(0)[1].split()
            if action[0] == "press":
                os.write(master, b"\x03" if action[1] == "^C" else action[1].encode())
            elif action[0] == "resize":
                rows, columns = map(int, action[1].split("x"))
                set_size(slave, rows, columns)
                screen.resize(rows, columns)
                break
    else:
        process.kill()
    json.dump({
        "code": process.wait(),
        "output": output,
        "screen": screen.text(),
        "seen": seen,
        "events_left": events,
        "unknown": screen.unknown,
        "cursor_shown": screen.cursor_shown,
        "modes_kept": termios.tcgetattr(slave) == before,
    }, sys.stdout)


def is_whole(data):
    try:
        data.decode()
        return True
    except UnicodeDecodeError as error:
        return error.reason != "unexpected end of data"


main()
