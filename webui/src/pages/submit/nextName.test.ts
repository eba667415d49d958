import { expect, test } from "vitest";
import { nextName, withNextName } from "./jobFileText";

test.each([
  ["train", "train-2"],
  ["train-2", "train-3"],
  ["lr-0-9", "lr-0-10"],
  ["run-20260101123456", "run-20260101123456-2"],
])("the copy of %s is %s", (name, next) => expect(nextName(name)).toBe(next));

test("only the job's own name is changed", () => {
  const text = 'protocolVersion: 2\nname: "a"\nprerequisites:\n  - name: image\n';
  expect(withNextName(text)).toBe(text.replace('"a"', '"a-2"'));
});
