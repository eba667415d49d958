import { describe, expect, test } from "vitest";
import { checkSchema } from "./check";
import { schemaAt } from "./lookup";
import type { Schema } from "./types";

const SCHEMA: Schema = {
  type: "object",
  additionalProperties: false,
  required: ["name", "taskRoles"],
  properties: {
    name: { type: "string", pattern: "^[a-z]+$", minLength: 1, maxLength: 5 },
    version: { anyOf: [{ const: 2 }, { type: "null" }] },
    kind: { enum: ["job", "notebook"] },
    taskRoles: {
      type: "object",
      minProperties: 1,
      propertyNames: { pattern: "^[a-z_]+$" },
      additionalProperties: { $ref: "#/$defs/Role" },
    },
  },
  $defs: {
    Role: {
      type: "object",
      required: ["commands"],
      additionalProperties: false,
      properties: {
        instances: { type: "integer", minimum: 1, description: "How many." },
        cpu: { anyOf: [{ type: "integer" }, { type: "number" }], exclusiveMinimum: 0 },
        completion: { anyOf: [{ $ref: "#/$defs/Completion" }, { type: "null" }] },
        commands: { type: "array", minItems: 1, items: { type: "string" } },
      },
    },
    Completion: {
      type: "object",
      additionalProperties: false,
      properties: { minFailedInstances: { type: "integer" } },
    },
  },
};

const good = { name: "abc", taskRoles: { w: { commands: ["true"] } } };
const problems = (part: object) =>
  checkSchema({ ...good, ...part }, SCHEMA).map(
    ({ path, message }) => `${path.join(".") || "/"} ${message}`,
  );
const role = (part: object) => problems({ taskRoles: { w: { commands: ["x"], ...part } } });

describe("a job file against its schema", () => {
  test("a good one has no problems", () => expect(problems({})).toEqual([]));
  test("all problems are shown, not the first alone", () =>
    expect(problems({ name: 3, kind: "x", extra: 1 })).toHaveLength(3));
  test("a wrong type", () => expect(problems({ name: 3 })).toEqual(["name must be text"]));
  test("a pattern", () => expect(problems({ name: "A" })).toEqual(["name must match [a-z]+"]));
  test("a choice", () =>
    expect(problems({ kind: "x" })).toEqual(['kind must be one of "job", "notebook"']));
  test("an unknown field with the one that was meant", () =>
    expect(role({ instance: 3 })).toEqual([
      'taskRoles.w.instance "instance" is not known here; did you mean "instances"?',
    ]));
  test("a missing field", () =>
    expect(problems({ taskRoles: { w: {} } })).toEqual(['taskRoles.w needs "commands"']));
  test("a number out of range", () =>
    expect(role({ instances: 0 })).toEqual(["taskRoles.w.instances must be at least 1"]));
  test("a fraction where a whole number is needed", () =>
    expect(role({ instances: 1.5 })).toEqual(["taskRoles.w.instances must be a whole number"]));
  test("an item of a list", () =>
    expect(role({ commands: ["a", 5] })).toEqual(["taskRoles.w.commands.1 must be text"]));
  test("an empty list", () =>
    expect(role({ commands: [] })).toEqual(["taskRoles.w.commands needs at least 1 of them"]));
  test("a name of a role", () =>
    expect(problems({ taskRoles: { "w-1": good.taskRoles.w } })[0]).toContain(
      "a name here must match",
    ));
  test("inside an optional part", () =>
    expect(role({ completion: { minFailed: 1 } })[0]).toContain("completion.minFailed"));
  test("of an optional part of another type", () =>
    expect(role({ completion: 4 })).toEqual([
      "taskRoles.w.completion must be a mapping, or must be nothing",
    ]));
  test("names that JSON pointers write otherwise, or that look like numbers", () => {
    const paths = (part: object) =>
      checkSchema({ ...good, ...part }, SCHEMA).map(({ path }) => path);
    expect(paths({ "a/b~c d#%": 1 })).toEqual([["a/b~c d#%"]]);
    expect(paths({ taskRoles: { "1": good.taskRoles.w } })).toEqual([["taskRoles", "1"]]);
  });
  test("several unknown fields, each beside its own place", () =>
    expect(role({ instance: 3, completion: { min: 1, max: 2 } })).toHaveLength(3));
  test("all that a role lacks or has too much", () =>
    expect(problems({ taskRoles: { a: { x: 1 }, b: { commands: [] } } })).toEqual([
      'taskRoles.a needs "commands"',
      'taskRoles.a.x "x" is not known here; known are instances, cpu, completion, commands',
      "taskRoles.b.commands needs at least 1 of them",
    ]));
  test("no prototype leaks in as a field", () =>
    expect(problems(JSON.parse('{"constructor": 1}'))[0]).toContain("is not known here"));
});

test("finds the schema at a path, through references and optional parts", () => {
  const completion = schemaAt(SCHEMA, ["taskRoles", "any", "completion"]);
  expect(Object.keys(completion?.properties ?? {})).toEqual(["minFailedInstances"]);
  expect(schemaAt(SCHEMA, ["nowhere"])).toBeUndefined();
});
