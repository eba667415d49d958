import { describe, expect, test } from "vitest";
import { aChunk } from "@/test/rows";
import { assemble } from "./assemble";
import {
  findLines,
  findRanges,
  firstError,
  looksLikeError,
  nextMatch,
  previousMatch,
} from "./find";

const { lines } = assemble([
  aChunk(1, "Start\nloss 0.5\n\u001b[31mValueError\u001b[0m: bad\nstart again\n"),
]);

describe("finding", () => {
  test("ignores case for a needle without capitals", () =>
    expect(findLines(lines, "start")).toEqual([0, 3]));
  test("minds case for a needle with capitals", () =>
    expect(findLines(lines, "Start")).toEqual([0]));
  test("looks through colours", () => expect(findLines(lines, "valueerror: bad")).toEqual([2]));
  test("finds nothing for nothing", () => expect(findLines(lines, "")).toEqual([]));
  test("shows each place in a line", () =>
    expect(findRanges("abcABC", "bc")).toEqual([
      [1, 3],
      [4, 6],
    ]));
  test("goes round at the ends", () => {
    expect(nextMatch([2, 5], 6)).toBe(2);
    expect(previousMatch([2, 5], 1)).toBe(5);
    expect(nextMatch([], 0)).toBeNull();
  });
});

describe("the first error", () => {
  test("is found by its words", () => expect(firstError(lines)).toBe(2));
  test.each([
    "Traceback (most recent call last):",
    "RuntimeError: CUDA out of memory",
    "[ERROR] lost connection",
    "thread 'main' panicked at src/main.rs",
    "java.lang.IllegalStateException: x",
    "Segmentation fault (core dumped)",
  ])("%s", (text) => expect(looksLikeError(text)).toBe(true));
  test.each(["0 errors, 2 warnings", "error_rate 0.2", "epoch 3 error: 0.123", "terror"])(
    "%s is none",
    (text) => expect(looksLikeError(text)).toBe(false),
  );
});
