"""Measures on request, as `process.rs` does: for each line on standard input, which says how many
answers, one line with the processor time of one in nanoseconds, `nan` for the allocations that
nobody counts, and the bytes of its text."""

import sys
import time


def serve(make, address):
    try:
        answer = make(address)
    except ImportError:
        print("not installed")
        return
    answer()
    print("ready", flush=True)
    for line in sys.stdin:
        answers = int(line)
        begun = time.process_time_ns()
        for _ in range(answers):
            text = answer()
        spent = (time.process_time_ns() - begun) // answers
        print(spent, "nan", len(text.encode()), flush=True)
