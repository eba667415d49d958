import { describe, expect, test } from "vitest";
import type { LogChunk } from "@/api/types";
import { assemble } from "./assemble";
import { lineLink, parseLineLink } from "./lineLink";
import { linePositionOf } from "./useSearchHit";

const ATTEMPT = "01a20484-ca4a-71fc-a0a2-a384b4fe2704";
const OTHER = "01a20484-ca4a-71fc-a0a2-a384b4fe2705";

function chunk(cursor: number, text: string, more: Partial<LogChunk> = {}): LogChunk {
  const at = "2026-01-01T10:00:00Z";
  const task = { attempt_id: ATTEMPT, role: "worker", index: 0, rank: 0, attempt: 1 };
  return {
    ...task,
    cursor,
    stream: "stdout",
    offset: 0,
    at,
    text,
    line_times: [],
    ...more,
  } as LogChunk;
}

describe("finding U30: a link to one line of a log", () => {
  const chunks = [
    chunk(1, "één\ntwo\n"),
    chunk(2, "two\nelsewhere\n", { attempt_id: OTHER }),
    chunk(3, "three\nfour\n", { offset: 10 }),
    chunk(4, "three\n", { stream: "stderr" }),
  ];
  const { lines } = assemble(chunks);
  const place = (link: string) => {
    const parsed = parseLineLink(link);
    if (!parsed) throw new Error(`${link} is no link`);
    return { ...parsed, text: "" };
  };
  const lineOf = (text: string) => lines.filter((line) => line.text === text).slice(0, 1);

  test.each(lines.map((line, index) => [index, line.text, lineLink(line)] as const))(
    "line %d, %s, is found again in the merged log",
    (index, _text, link) => expect(linePositionOf(place(link), lines)).toBe(index),
  );

  test("a line is found again among those of its task, and of chunks that came in parts", () => {
    const [four = ""] = lineOf("four").map(lineLink);
    const parts = [
      chunk(1, "één\n"),
      chunk(1, "two\n", { offset: 6 }),
      chunk(3, "three\n", { offset: 10 }),
      chunk(3, "four\n", { offset: 16 }),
    ];
    const alone = assemble(parts).lines;
    const at = linePositionOf(place(four), alone);
    expect(alone[at ?? -1]?.text).toBe("four");
  });

  test.each(["", "12", "1.stdout.0", `x.stdout.0.${ATTEMPT}`, `1.stdin.0.${ATTEMPT}`])(
    "%j is no link",
    (text) => expect(parseLineLink(text)).toBeNull(),
  );
});
