import { expect, test } from "vitest";
import { aChunk } from "@/test/rows";
import { assemble } from "./assemble";
import { placeOf } from "./useHit";

const first = aChunk(1, "ä same\nsame\nsa");
const other = aChunk(2, "same\n", { attempt_id: "a1", rank: 1 });
const second = aChunk(3, "me\nsame\n", { offset: 15 });
const { lines } = assemble([first, other, second]);
const hit = (offset: number) => aChunk(9, "same", { offset });

test("of equal lines the one at the match's byte is found", () => {
  expect(placeOf(hit(3), lines)).toBe(0);
  expect(placeOf(hit(8), lines)).toBe(1);
  expect(placeOf(hit(18), lines)).toBe(4);
});

test("a line that began in an earlier chunk is found there", () => {
  expect(placeOf(hit(13), lines)).toBe(2);
});

test("what is not among the lines has no place", () => {
  expect(placeOf(aChunk(9, "same", { attempt_id: "a7" }), lines)).toBeNull();
});
