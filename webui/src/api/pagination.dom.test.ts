import { expect, test } from "vitest";
import { fetchAllPages, cursorOf } from "./pagination";

test("finds the cursor in the address of the next page", () => {
  expect(cursorOf("http://x/api/v1/jobs?cursor=cD0y&limit=50")).toBe("cD0y");
  expect(cursorOf(null)).toBeUndefined();
});

test("reads a collection page after page until there is no next one", async () => {
  const asked: unknown[] = [];
  const rows = await fetchAllPages<number>(async ({ cursor }) => {
    asked.push(cursor);
    return cursor
      ? { results: [3], next: null, previous: null }
      : { results: [1, 2], next: "http://x/?cursor=two", previous: null };
  });
  expect(rows).toEqual([1, 2, 3]);
  expect(asked).toEqual([undefined, "two"]);
});
