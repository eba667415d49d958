import { describe, expect, test } from "vitest";
import { aChunk } from "@/test/rows";
import { assemble, LONGEST_LINE } from "./assemble";

const texts = (...chunks: Parameters<typeof assemble>[0]) =>
  assemble(chunks).lines.map((line) => line.text);

describe("lines of chunks", () => {
  test("a chunk may hold many lines and end in the midst of one", () =>
    expect(texts(aChunk(1, "a\nb\nc"), aChunk(2, "d\ne\n"))).toEqual(["a", "b", "cd", "e"]));

  test("empty lines stay", () => expect(texts(aChunk(1, "a\n\nb\n"))).toEqual(["a", "", "b"]));

  test("pieces of different tasks never mix, and a line stays where it began", () =>
    expect(
      texts(
        aChunk(1, "zero: sta", { attempt_id: "a0" }),
        aChunk(2, "one: all\n", { attempt_id: "a1" }),
        aChunk(3, "rt\n", { attempt_id: "a0" }),
      ),
    ).toEqual(["zero: start", "one: all"]));

  test("stdout and stderr of one task are distinguished", () =>
    expect(
      texts(aChunk(1, "out", { stream: "stdout" }), aChunk(2, "err\n", { stream: "stderr" })),
    ).toEqual(["out", "err"]));
});

describe("progress bars", () => {
  test("show their newest state in one line", () =>
    expect(texts(aChunk(1, "10%\r50%\r"), aChunk(2, "100%\ndone\n"))).toEqual(["100%", "done"]));

  test("stay as they are until something is written over them", () =>
    expect(texts(aChunk(1, "50%\r"))).toEqual(["50%"]));

  test("a Windows line end is only a line end", () =>
    expect(texts(aChunk(1, "a\r"), aChunk(2, "\nb\r\n"))).toEqual(["a", "b"]));
});

describe("long lines", () => {
  test("are cut into parts that hold all of the text", () => {
    const text = "x".repeat(LONGEST_LINE * 2 + 5);
    const parts = texts(aChunk(1, text), aChunk(2, "y\nz\n"));
    expect(parts.map((part) => part.length)).toEqual([LONGEST_LINE, LONGEST_LINE, 6, 1]);
  });

  test("are never cut inside an escape sequence, and keep their colour", () => {
    const text = `${"x".repeat(LONGEST_LINE - 2)}\u001b[31mred\n`;
    const [, second] = assemble([aChunk(1, text)]).lines;
    expect(second?.text).toBe("\u001b[31mred");
  });
});

test("a colour left on colours the task's next line, and no other task’s", () => {
  const { lines } = assemble([
    aChunk(1, "\u001b[31mred\nstill\n"),
    aChunk(2, "other\n", { attempt_id: "a1" }),
  ]);
  expect(lines.map((line) => line.look)).toEqual([{}, { fg: "1" }, {}]);
});

test("lines keep their keys when earlier chunks are added", () => {
  const later = [aChunk(5, "b\nc\n")];
  const before = assemble(later).lines.map((line) => line.key);
  const after = assemble([aChunk(4, "a\n"), ...later]).lines.map((line) => line.key);
  expect(after.slice(1)).toEqual(before);
});

test("finding j11: each line has its own time, also where a chunk comes in parts", () => {
  const at = "2026-01-01T10:00:00.250Z";
  const { lines } = assemble([
    aChunk(2, "a\nb\nc", { at, line_times: [0, 1500, 3000] }),
    aChunk(1, "err\n", { at, stream: "stderr", line_times: [4000] }),
    aChunk(2, "d\n", { at, offset: 5, line_times: [0] }),
  ]);
  const begin = Date.parse(at);
  expect(lines.map(({ text, at: time }) => [text, time - begin])).toEqual([
    ["a", 0],
    ["b", 1.5],
    ["cd", 3],
    ["err", 4],
  ]);
  expect(new Set(lines.map(({ key }) => key)).size).toBe(4);
});
