"""Load ``heed serve`` on this machine: throughput, latency, and whether each client gets its own answer.

    python scripts/serve_load.py RUN [--clients 64] [--seconds 60] [OPTIONS OF heed serve]

The clients send the run's first validation sentences, one at a time each. Before, a single client does the same. Prints
a JSON object; exits with 1 if a client got an error or another client's response.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from benchmark.measure import resident_mib

import heed

SENTENCES = 256
"""Different sentences."""


@dataclass
class Load:
    """Clients that send sentences, each over one connection, and what they got."""

    port: int
    languages: dict[str, str]
    expected: dict[str, str]
    """The translation of each sentence."""
    latencies: list[float] = field(default_factory=list)
    """Seconds of each answer."""
    wrong: int = 0
    """Answers with another text than `heed.Translator` gives."""
    swapped: int = 0
    """Wrong answers with the translation of another sentence."""
    errors: int = 0
    """Responses with another status than 200, and closed connections."""

    async def run(self, clients: int, seconds: float) -> dict[str, float]:
        """Let clients work for some time, after a second to warm up. Return requests per second and milliseconds."""
        for duration in (1, seconds):
            self.latencies, self.wrong, self.swapped, self.errors = [], 0, 0, 0
            end = time.perf_counter() + duration
            await asyncio.gather(*(self._client(number, clients, end) for number in range(clients)))
        cuts = quantiles(self.latencies, n=100)
        return {
            "requests": len(self.latencies),
            "requests_per_second": round(len(self.latencies) / seconds, 1),
            "p50_ms": round(1000 * cuts[49], 1),
            "p95_ms": round(1000 * cuts[94], 1),
            "wrong": self.wrong,
            "swapped": self.swapped,
            "errors": self.errors,
        }

    async def _client(self, number: int, clients: int, end: float) -> None:
        sentences = list(self.expected)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        position = number * len(sentences) // clients
        while (start := time.perf_counter()) < end:
            sentence = sentences[position % len(sentences)]
            position += 1
            try:
                text = await self._ask(reader, writer, sentence)
            except (OSError, EOFError, ValueError, KeyError):
                self.errors += 1
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                continue
            self.latencies.append(time.perf_counter() - start)
            if text != self.expected[sentence]:
                self.wrong += 1
                self.swapped += text in self.expected.values()
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


@contextmanager
def server(run: Path, options: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Run the server until the end of the context; yield its port and its process."""
    command = [sys.executable, "-m", "heed", "serve", str(run), "--port", "0", "--no-split-sentences", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8") as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            address = re.search(r"http://[\d.]+:(\d+)", line)
            if address is None:
                raise SystemExit(f"heed serve did not start: {line}")
            yield int(address[1]), process.pid
        finally:
            process.terminate()


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
        memory = [resident_mib(process)]
        many = asyncio.run(load.run(args.clients, args.seconds))
        memory.append(resident_mib(process))
    ratio = round(many["requests_per_second"] / one["requests_per_second"], 2)
    megabytes = [round(mib * 2**20 / 1e6, 1) for mib in memory]
    found = {"clients": args.clients, "one": one, "many": many, "ratio": ratio, "memory_mb": megabytes}
    print(json.dumps(found, indent=2))
    return int(any(side[name] for side in (one, many) for name in ("swapped", "errors")))


if __name__ == "__main__":
    sys.exit(main())
