import { describe, expect, test } from "vitest";
import { aChunk } from "@/test/rows";
import { LogWindow } from "./LogWindow";

const chunks = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, n) => aChunk(from + n, `line ${from + n}\n`));
const shown = (window: LogWindow) => window.lines.map((line) => Number(line.text.slice(5)));

describe("a window on a log", () => {
  test("holds everything while it is small", () => {
    const window = new LogWindow(5000);
    expect(window.append(chunks(1, 10))).toBe(false);
    expect([window.first, window.last]).toEqual([1, 10]);
    expect(window.lines).toHaveLength(10);
  });

  test("drops the oldest chunks when it grows at the end", () => {
    const window = new LogWindow(600);
    window.append(chunks(10, 20));
    expect(window.append(chunks(21, 40))).toBe(true);
    expect(window.last).toBe(40);
    expect(shown(window)[0]).toBe(window.first);
    expect(shown(window).at(-1)).toBe(40);
  });

  test("drops the newest chunks when it grows at the beginning", () => {
    const window = new LogWindow(600);
    window.append(chunks(41, 50));
    expect(window.prepend(chunks(31, 40))).toBe(true);
    expect(window.first).toBe(31);
    expect(shown(window).at(-1)).toBe(window.last);
    expect(window.last).toBeLessThan(50);
  });

  test("never outgrows its limit, however long the log", () => {
    const window = new LogWindow(10_000);
    for (let n = 1; n < 20_000; n += 100) window.append(chunks(n, n + 99));
    const held = window.lines.reduce((sum, line) => sum + line.text.length + 1, 0);
    expect(held).toBeLessThanOrEqual(10_000);
    expect(window.last).toBe(20_000);
  });

  test("makes a line whole when its beginning is read later", () => {
    const window = new LogWindow();
    window.append([aChunk(2, "end\n")]);
    window.prepend([aChunk(1, "begin ")]);
    expect(window.lines.map((line) => line.text)).toEqual(["begin end"]);
  });

  test("keeps at least one chunk, even one that is larger than the limit", () => {
    const window = new LogWindow(10);
    window.append([aChunk(1, "x".repeat(50))]);
    expect(window.first).toBe(1);
  });
});
