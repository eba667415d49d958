import { describe, expect, test } from "vitest";
import type { Schema } from "./schema/types";
import { checkYaml, serverMarks } from "./positions";

const SCHEMA: Schema = {
  type: "object",
  additionalProperties: false,
  required: ["name"],
  properties: {
    name: { type: "string" },
    roles: {
      type: "object",
      additionalProperties: {
        type: "object",
        additionalProperties: false,
        required: ["image"],
        properties: { image: { type: "string" }, gpu: { type: "integer", minimum: 0 } },
      },
    },
    list: { type: "array", items: { type: "string" } },
  },
};

const marked = (text: string) =>
  checkYaml(text, SCHEMA).map(({ from, to }) => text.slice(from, to));

describe("where a mistake stands", () => {
  test("a wrong value is marked at the value", () =>
    expect(marked("name: x\nroles:\n  w:\n    image: i\n    gpu: -1\n")).toEqual(["-1"]));
  test("an unknown key at the key", () => expect(marked("name: x\nnmae: y\n")).toEqual(["nmae"]));
  test("a missing field at the key that should hold it", () =>
    expect(marked("name: x\nroles:\n  w:\n    gpu: 1\n")).toEqual(["w"]));
  test("an item at the item", () =>
    expect(marked("name: x\nlist:\n  - a\n  - 7\n")).toEqual(["7"]));
  test("a missing field of the whole at the first line", () =>
    expect(marked("list: []\nroles: {}\n")).toEqual(["list: []"]));
});

describe("broken YAML", () => {
  test("is shown at its place", () => {
    const [mark] = checkYaml("name: [1,\nother: 2\n", SCHEMA);
    expect(mark?.message).toBeTruthy();
    expect(mark?.to).toBeGreaterThan(mark?.from ?? 0);
  });
  test("a key that stands twice is a mistake", () =>
    expect(checkYaml("name: a\nname: b\n", SCHEMA)[0]?.message).toMatch(/unique/i));
  test("a bomb of aliases is not unfolded", () => {
    const levels = Array.from({ length: 9 }, (_, n) => {
      const aliases = Array(9).fill(n === 0 ? "x" : `*l${n - 1}`);
      return `l${n}: &l${n} [${aliases.join(", ")}]`;
    });
    expect(() => checkYaml(levels.join("\n"), SCHEMA)).not.toThrow();
  });
  test("an empty file needs a mapping", () =>
    expect(checkYaml("", SCHEMA)[0]?.message).toBe("must be a mapping"));
});

test("values are read as YAML 1.2 does: no is text", () =>
  expect(checkYaml("name: no\n", SCHEMA)).toEqual([]));

describe("the server's errors", () => {
  const text = "name: x\nroles:\n  w: 1\n";
  const error = { code: "x", message: "Bad.", path: "" };
  test("stand at their line and column", () => {
    const [mark] = serverMarks(text, [{ ...error, line: 3, column: 6 }]);
    expect(text.slice(mark?.from, mark?.to)).toBe("1");
  });
  test("never lie outside the text", () => {
    const [mark] = serverMarks(text, [{ ...error, line: 99, column: 99 }]);
    expect(mark?.to).toBeLessThanOrEqual(text.length);
  });
});
