import { describe, expect, test, vi } from "vitest";
import type { LogRange } from "@/api/logs";
import type { LogPage } from "@/api/types";
import { aChunk } from "@/test/rows";
import { LogReader } from "./LogReader";

/** A log of numbered lines, read as the server reads it, `page` chunks at a time. What makes them
 * heavy is written over at once and does not show. */
function aLog(length: number, page = 10) {
  const padding = page < 1000 ? "·".repeat(600_000 / page) : "";
  const log = {
    length,
    over: false,
    broken: false,
    asked: [] as LogRange[],
    read: async (range: LogRange): Promise<LogPage> => {
      log.asked.push(range);
      if (log.broken) throw new TypeError("Failed to fetch");
      let [from, to] = [(range.cursor ?? 0) + 1, log.length];
      if (range.tail) from = Math.max(1, log.length - page + 1);
      else if (range.before !== undefined) to = range.before - 1;
      if (range.before !== undefined) from = Math.max(1, to - page + 1);
      const last = Math.min(to, from + page - 1);
      const chunks = [];
      for (let n = from; n <= last; n += 1) chunks.push(aChunk(n, `${padding}\r${n}\n`));
      const backwards = range.tail !== undefined || range.before !== undefined;
      return {
        chunks,
        next: Math.max(from - 1, last),
        more: backwards ? from > 1 : last < log.length,
        complete: log.over && last >= log.length,
      };
    },
  };
  return log;
}

const shown = (reader: LogReader) => reader.view.lines.map((line) => Number(line.text));
const settled = () => new Promise((resolve) => setTimeout(resolve));

describe("reading a log", () => {
  test("begins at its end", async () => {
    const reader = new LogReader(aLog(100).read);
    await reader.toEnd();
    expect(shown(reader)).toEqual([91, 92, 93, 94, 95, 96, 97, 98, 99, 100]);
    expect(reader.view).toMatchObject({ atEnd: true, atStart: false, complete: false });
  });

  test("adds what comes when a notification comes", async () => {
    const log = aLog(3);
    const reader = new LogReader(log.read);
    await reader.toEnd();
    log.length = 5;
    await reader.poke();
    expect(shown(reader)).toEqual([1, 2, 3, 4, 5]);
  });

  test("a notification during a request is answered after it", async () => {
    const log = aLog(3);
    const reader = new LogReader(log.read);
    const first = reader.toEnd();
    log.length = 4;
    await reader.poke();
    await first;
    await settled();
    expect(shown(reader)).toEqual([1, 2, 3, 4]);
  });

  test("a notification during a catch-up of many pages reads no page twice", async () => {
    const log = aLog(10);
    const reader = new LogReader(log.read);
    await reader.toEnd();
    log.length = 35;
    const catchUp = reader.poke();
    await reader.poke();
    await catchUp;
    await settled();
    expect(shown(reader)).toEqual(Array.from({ length: 35 }, (_, n) => n + 1));
    expect(log.asked.map((range) => range.cursor)).toEqual([undefined, 10, 20, 30, 35]);
  });

  test("a catch-up lets what began between two of its pages end first", async () => {
    const log = aLog(100);
    let [running, most] = [0, 0];
    const reader = new LogReader(async (range) => {
      most = Math.max(most, (running += 1));
      const page = await log.read(range);
      await settled();
      running -= 1;
      return page;
    });
    await reader.toEnd();
    log.length = 125;
    const stop = reader.watch(() => {
      if (reader.view.busy) return;
      stop();
      void reader.earlier();
    });
    await reader.poke();
    await vi.waitFor(() => expect(shown(reader).at(-1)).toBe(125));
    expect(most).toBe(1);
    expect(shown(reader)).toEqual(Array.from({ length: 45 }, (_, n) => n + 81));
  });

  test("a jump during a catch-up ends it, and later notifications are read", async () => {
    const log = aLog(10);
    const reader = new LogReader(log.read);
    await reader.toEnd();
    log.length = 35;
    const catchUp = reader.poke();
    await reader.toEnd();
    await catchUp;
    log.length = 36;
    await reader.poke();
    expect(shown(reader)).toEqual([26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36]);
  });

  test("reads backwards to the first line, and then no further", async () => {
    const log = aLog(25);
    const reader = new LogReader(log.read);
    await reader.toEnd();
    for (let n = 0; n < 5; n += 1) await reader.earlier();
    expect(shown(reader)[0]).toBe(1);
    expect(reader.view.atStart).toBe(true);
    expect(log.asked).toHaveLength(3);
  });

  test("knows when the log is over, and asks no more", async () => {
    const log = aLog(5);
    log.over = true;
    const reader = new LogReader(log.read);
    await reader.toEnd();
    expect(reader.view.complete).toBe(true);
    await reader.poke();
    expect(log.asked).toHaveLength(1);
  });

  test("jumps to a chunk and reads on from there", async () => {
    const reader = new LogReader(aLog(100).read);
    await reader.toEnd();
    await reader.toCursor(40);
    expect(shown(reader)[0]).toBe(40);
  });

  test("does not add to a window that does not hold the end", async () => {
    const log = aLog(5000, 2000);
    const reader = new LogReader(log.read);
    await reader.toStart();
    expect(reader.view.atEnd).toBe(false);
    await reader.poke();
    expect(shown(reader).at(-1)).toBe(2000);
    await reader.later();
    expect(shown(reader).at(-1)).toBe(4000);
  });

  test("jumps to the end when it falls far behind", async () => {
    const log = aLog(10, 1000);
    const reader = new LogReader(log.read);
    await reader.toEnd();
    log.length = 100_000;
    await reader.poke();
    expect(shown(reader).at(-1)).toBe(100_000);
    expect(log.asked.length).toBeLessThan(8);
  });

  test("drops the end when reading far back, and finds it again", async () => {
    const log = aLog(400, 100);
    const reader = new LogReader(log.read, 1_500_000);
    await reader.toEnd();
    for (let n = 0; n < 3; n += 1) await reader.earlier();
    expect(reader.view.atEnd).toBe(false);
    const last = shown(reader).at(-1) ?? 0;
    await reader.later();
    expect(shown(reader)).toContain(last + 1);
  });

  test("reports a failure, keeps what it has, and recovers", async () => {
    const log = aLog(3);
    const reader = new LogReader(log.read);
    await reader.toEnd();
    log.broken = true;
    await reader.poke();
    expect(reader.view.error).toBeInstanceOf(TypeError);
    expect(shown(reader)).toEqual([1, 2, 3]);
    log.broken = false;
    await reader.poke();
    expect(reader.view.error).toBeNull();
  });
});

test("finding j11: what came before a page is read from its earliest chunk, wherever that stands", async () => {
  const asked: LogRange[] = [];
  const parts = (...cursors: number[]) =>
    cursors.map((n, at) => aChunk(n, `${n}\n`, { offset: at }));
  const reader = new LogReader(async (range) => {
    asked.push(range);
    const chunks = range.before === undefined ? parts(6, 5, 6, 7) : parts(4, 3);
    return { chunks, next: 7, more: range.before === undefined, complete: false };
  });
  await reader.toEnd();
  await reader.earlier();
  expect(asked[1]?.before).toBe(5);
  expect(shown(reader)).toEqual([4, 3, 6, 5, 6, 7]);
});
