"""Load ``heed serve`` on this machine: throughput, latency, and whether each client gets its own answer.

    python scripts/serve_load.py RUN [--clients 64] [--seconds 60] [OPTIONS OF heed serve]

The clients send the run's first validation sentences, one at a time each. Before, a single client does the same. Prints
a JSON object; exits with 1 if a client got an error or the answer of another one.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import heed

SENTENCES = 256
"""Different sentences."""


@dataclass
class Answers:
    """What the clients got."""

    seconds: list[float] = field(default_factory=list)
    """Latency of each answer."""
    wrong: int = 0
    """Answers with another text than `heed.Translator` gives."""
    swapped: int = 0
    """Wrong answers with the translation of another sentence."""
    errors: int = 0
    """Responses with another status than 200, and closed connections."""

    def summary(self, duration: float) -> dict[str, float]:
        """Return throughput and latency, in requests per second and milliseconds."""
        cuts = quantiles(self.seconds, n=100)
        return {
            "requests": len(self.seconds),
            "requests_per_second": round(len(self.seconds) / duration, 1),
            "p50_ms": round(1000 * cuts[49], 1),
            "p95_ms": round(1000 * cuts[94], 1),
            "wrong": self.wrong,
            "swapped": self.swapped,
            "errors": self.errors,
        }


def main() -> int:
    """Run the load test and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    args, options = parser.parse_known_args()
    translator = heed.load(args.run, device="cpu")
    sentences = (args.run / "translations" / "valid.src").read_text(encoding="utf-8").split("\n")[:SENTENCES]
    expected = dict(zip(sentences, translator.translate(sentences), strict=True))
    languages = {"source": translator.src_lang, "target": translator.tgt_lang}
    with server(args.run, options) as (port, process):
        load = Load(port, languages, expected)
        one = asyncio.run(load.run(1, args.seconds / 3))
        asyncio.run(load.run(args.clients, args.seconds / 3))  # the first batches of each size allocate memory
        memory = [resident_megabytes(process)]
        many = asyncio.run(load.run(args.clients, args.seconds))
        memory.append(resident_megabytes(process))
    ratio = many["requests_per_second"] / one["requests_per_second"]
    found = {"clients": args.clients, "one": one, "many": many, "ratio": round(ratio, 2), "memory_mb": memory}
    print(json.dumps(found, indent=2))
    return int(any(side[name] for side in (one, many) for name in ("swapped", "errors")))


@contextmanager
def server(run: Path, options: Sequence[str]) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run the server at a free port until the end of the context."""
    command = [sys.executable, "-m", "heed", "serve", str(run), "--port", "0", "--no-split-sentences", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            address = re.search(r"http://[\d.]+:(\d+)", line)
            if address is None:
                raise SystemExit(f"heed serve did not start: {line}")
            yield int(address[1]), process
        finally:
            process.terminate()


@dataclass
class Load:
    """Clients that send sentences, each over one connection.

    Args:
        expected: the translation of each sentence.
    """

    port: int
    languages: dict[str, str]
    expected: dict[str, str]

    async def run(self, clients: int, seconds: float) -> dict[str, float]:
        """Let clients work for some time, after a second to warm up, and return a summary."""
        await self._together(clients, 1)
        return (await self._together(clients, seconds)).summary(seconds)

    async def _together(self, clients: int, seconds: float) -> Answers:
        answers = Answers()
        end = time.perf_counter() + seconds
        await asyncio.gather(*(self._client(number, clients, end, answers) for number in range(clients)))
        return answers

    async def _client(self, number: int, clients: int, end: float, answers: Answers) -> None:
        sentences = list(self.expected)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        position = number * len(sentences) // clients
        while (start := time.perf_counter()) < end:
            sentence = sentences[position % len(sentences)]
            position += 1
            try:
                text = await self._ask(reader, writer, sentence)
            except (OSError, EOFError, ValueError, KeyError):
                answers.errors += 1
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                continue
            answers.seconds.append(time.perf_counter() - start)
            if text != self.expected[sentence]:
                answers.wrong += 1
                answers.swapped += text in self.expected.values()
        writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sentence: str) -> str:
        """Send one request and return the translation; KeyError for an error of the server."""
        body = json.dumps({"q": sentence, **self.languages}).encode()
        writer.write(
            b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        size = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        answer = json.loads(await reader.readexactly(int(size[1]) if size else 0))
        text: str = answer["translatedText"]
        return text


def resident_megabytes(process: subprocess.Popen[str]) -> float:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="utf-8").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


if __name__ == "__main__":
    sys.exit(main())
