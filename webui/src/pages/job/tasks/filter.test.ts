import { expect, test } from "vitest";
import { aTask } from "@/test/rows";
import { chosen, NO_FILTER } from "./filter";

const tasks = [
  aTask({ id: 1, role: "ps", state: "RUNNING" }),
  aTask({ id: 2, index: 3, state: "FAILED" }),
  aTask({ id: 3, index: 4, state: "RUNNING" }),
];
const ids = (filter: Partial<typeof NO_FILTER>) =>
  chosen(tasks, { ...NO_FILTER, ...filter }).map((task) => task.id);

test("no filter leaves all", () => expect(ids({})).toEqual([1, 2, 3]));
test("by role", () => expect(ids({ role: "ps" })).toEqual([1]));
test("by any of some states", () => expect(ids({ states: ["FAILED", "LOST"] })).toEqual([2]));
test("by name, in any case", () => expect(ids({ text: " WORKER-4 " })).toEqual([3]));
test("by all of them together", () => expect(ids({ role: "ps", states: ["FAILED"] })).toEqual([]));
