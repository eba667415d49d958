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

test.each([
  '{\n  "taskRoles": { "name": "worker" },\n  "name": "a-1",\n  "type": "job"\n}\n',
  "{name: a-1, type: job}",
  "type: job\nname: 'a-1' # of the sweep\n",
])("a job in another form is renamed, too: %s", (text) =>
  expect(withNextName(text)).toBe(text.replace("a-1", "a-2")),
);

test.each(["name: [a", "name: {a: 1}", "- name: a", "type: job\n"])(
  "what has no name of its own stays as it is: %s",
  (text) => expect(withNextName(text)).toBe(text),
);
