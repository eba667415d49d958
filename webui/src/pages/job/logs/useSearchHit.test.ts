import { expect, test } from "vitest";
import { aChunk } from "@/test/rows";
import { assemble } from "./assemble";
import { linePositionOf } from "./useSearchHit";

const first = aChunk(1, "ä same\nsame\nsa");
const other = aChunk(2, "same\n", { attempt_id: "a1", rank: 1 });
const second = aChunk(3, "me\nsame\n", { offset: 15 });
const { lines } = assemble([first, other, second]);
const hit = (offset: number) => aChunk(9, "same", { offset });

test("of equal lines the one at the match's byte is found", () => {
  expect(linePositionOf(hit(3), lines)).toBe(0);
  expect(linePositionOf(hit(8), lines)).toBe(1);
  expect(linePositionOf(hit(18), lines)).toBe(4);
});

test("a line that began in an earlier chunk is found there", () => {
  expect(linePositionOf(hit(13), lines)).toBe(2);
});

test("what is not among the lines has no place", () => {
  expect(linePositionOf(aChunk(9, "same", { attempt_id: "a7" }), lines)).toBeNull();
});
