import { expect, test } from "vitest";
import { withJsonLines } from "./changeJobFile";
import {
  fromTemplate,
  readForm,
  withCommands,
  withField,
  withImage,
  withoutParameter,
  withoutRole,
  withoutSecret,
  withParameter,
  withRole,
  withSecret,
  withStorages,
  withVirtualCluster,
} from "./jobForm";

const TEXT = `# trains the model
protocolVersion: 2
name: train # for the paper
type: job
prerequisites:
  - name: image
    type: dockerimage
    uri: "python:3.12" # pinned
taskRoles:
  worker:
    instances: 2
    dockerImage: image
    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
    # what it runs
    commands:
      - python train.py
unknownField: stays
secrets:
  key: "<% secret %>"
`;

test("a form is read from a text and its fields are written back without losing anything", () => {
  expect(readForm(TEXT)).toEqual({
    name: "train",
    virtualCluster: "",
    priorityClass: "",
    retries: 0,
    image: "python:3.12",
    roles: [
      { name: "worker", instances: 2, cpu: 4, memoryMB: 8192, gpu: 1, commands: "python train.py" },
    ],
    parameters: {},
    storages: [],
    secrets: ["key"],
  });
  let text = withField(TEXT, ["name"], "again");
  text = withField(text, ["taskRoles", "worker", "resourcePerInstance", "gpu"], 8);
  text = withImage(text, "python:3.13");
  expect(text).toBe(
    TEXT.replace("name: train", "name: again")
      .replace("gpu: 1", "gpu: 8")
      .replace("python:3.12", "python:3.13"),
  );
});

test("fields that are not there are added, and emptied ones go", () => {
  let text = withField(TEXT, ["defaults", "virtualCluster"], "vision");
  text = withField(text, ["extras", "hivedScheduler", "jobPriorityClass"], "oppo");
  text = withStorages(text, ["data"]);
  text = withCommands(text, "worker", "make\npython train.py");
  const form = readForm(text);
  expect(form?.virtualCluster).toBe("vision");
  expect(form?.priorityClass).toBe("oppo");
  expect(form?.storages).toEqual(["data"]);
  expect(form?.roles[0]?.commands).toBe("make\npython train.py");
  expect(text).toContain("# what it runs");
  expect(text).toContain("unknownField: stays");
  expect(readForm(withStorages(text, []))?.storages).toEqual([]);
});

test("task roles are added in the image of the first, and removed wherever they are named", () => {
  const more = withRole(TEXT, "ps");
  expect(readForm(more)?.roles.map((role) => role.name)).toEqual(["worker", "ps"]);
  expect(more).toContain("dockerImage: image\n    resourcePerInstance");
  const placed = withField(more, ["extras", "skep", "taskRoles", "ps"], { parallelism: 1 });
  const less = withoutRole(placed, "ps");
  expect(readForm(less)?.roles.map((role) => role.name)).toEqual(["worker"]);
  expect(less).not.toContain("ps:");
  expect(withoutRole(TEXT, "none")).toBe(TEXT);
});

test("secrets are added and removed by their names", () => {
  const more = withSecret(TEXT, "token", "hunter2");
  expect(readForm(more)?.secrets).toEqual(["key", "token"]);
  expect(readForm(withoutSecret(more, "key"))?.secrets).toEqual(["token"]);
  expect(withoutSecret(withoutSecret(more, "key"), "token")).not.toContain("secrets");
});

test("parameters that are one value are read, added as numbers where they are, and removed", () => {
  const text = "name: a\nparameters:\n  lr: 0.1 # small\n  layers: [1, 2]\n  debug: true\n";
  expect(readForm(text)?.parameters).toEqual({ lr: 0.1, debug: true });
  const more = withParameter(withParameter(text, "steps", "90"), "tag", "1e-3x");
  expect(readForm(more)?.parameters).toEqual({ lr: 0.1, debug: true, steps: 90, tag: "1e-3x" });
  expect(more).toContain("lr: 0.1 # small");
  const one = withParameter("name: a\n", "seed", "7");
  expect(one).toContain("parameters:\n  seed: 7");
  expect(withoutParameter(one, "seed")).toBe("name: a\n");
});

test("a template becomes a job with other parameters in a virtual cluster of the user", () => {
  const text = fromTemplate("name: a\nparameters:\n  lr: 0.1 # rate\n", { lr: 0.5 }, "vision");
  expect(text).toBe(
    "name: a\nparameters:\n  lr: 0.5 # rate\ndefaults:\n  virtualCluster: vision\n",
  );
});

test("what is no job file is left to the editor", () => {
  expect(readForm("- a\n- b\n")).toBeNull();
  expect(readForm("a: [")).toBeNull();
  expect(withField("a: [", ["name"], "x")).toBe("a: [");
});

test("another virtual cluster brings its default image, and keeps one that was chosen", () => {
  const defaults = new Map([
    ["vision", "torch"],
    ["speech", "kaldi"],
    ["plain", ""],
  ]);
  const chosen = withVirtualCluster(TEXT, "vision", defaults);
  expect(readForm(chosen)).toMatchObject({ virtualCluster: "vision", image: "python:3.12" });
  const before = withImage(chosen, "torch");
  expect(readForm(withVirtualCluster(before, "speech", defaults))?.image).toBe("kaldi");
  expect(readForm(withVirtualCluster(before, "plain", defaults))?.image).toBe("torch");
  expect(withVirtualCluster(TEXT, "speech", defaults)).toContain("# pinned");
});

test("a section without anything in it is filled at its place", () => {
  expect(withSecret("name: a\nsecrets:\n", "t", "x")).toBe("name: a\nsecrets:\n  t: x\n");
  const text =
    "secrets: # tokens\nextras:\ntaskRoles:\ndefaults:\nparameters:\nprerequisites:\nname: a\n";
  let filled = withSecret(text, "t", "x");
  filled = withStorages(filled, ["data"]);
  filled = withRole(filled, "worker");
  filled = withField(filled, ["extras", "hivedScheduler", "jobPriorityClass"], "oppo");
  filled = withImage(filled, "python:3.13");
  filled = fromTemplate(filled, { lr: 0.5 }, "vision");
  expect(readForm(filled)).toMatchObject({
    virtualCluster: "vision",
    priorityClass: "oppo",
    image: "python:3.13",
    roles: [{ name: "worker", instances: 1 }],
    storages: ["data"],
    secrets: ["t"],
  });
  expect(filled).toMatch(/^secrets:\n {2}# tokens\n {2}t: x\nextras:/);
  expect(filled).toContain("parameters:\n  lr: 0.5\n");
});

test.each([
  ["a number where sections are expected", "extras: 3\nsecrets: 3\ntaskRoles: 3\ndefaults: 3\n"],
  ["nothing but a list item without content", "prerequisites: [null]\ntaskRoles: [1]\n"],
  ["an alias", "a: &a {}\nextras: *a\nsecrets: *a\ntaskRoles: *a\ndefaults: *a\n"],
])("each change of a text with %s returns a text", (_, text) => {
  for (const change of [
    () => withField(text, ["extras", "hivedScheduler", "jobPriorityClass"], "oppo"),
    () => withImage(text, "x"),
    () => withVirtualCluster(text, "vision", new Map([["vision", "torch"]])),
    () => withCommands(text, "worker", "make"),
    () => withStorages(text, ["data"]),
    () => withStorages(text, []),
    () => withRole(text, "worker"),
    () => withoutRole(text, "worker"),
    () => withSecret(text, "t", "x"),
    () => withoutSecret(text, "t"),
    () => fromTemplate(text, { lr: 0.5 }, "vision"),
  ])
    expect(change()).toEqual(expect.any(String));
  expect(withStorages(text, [])).toBe(text);
});

test("a role whose commands another one uses stays, with all that is said of it", () => {
  const text = `taskRoles:
  a:
    commands: &run [make]
  b:
    commands: *run
extras: {hivedScheduler: {taskRoles: {a: {skuNum: 1}}}}
`;
  expect(withoutRole(text, "a")).toBe(text);
  expect(readForm(withoutRole(text, "b"))?.roles.map((role) => role.name)).toEqual(["a"]);
});

test.each([2, 4, "\t"])("JSON stays JSON, with its indent of %j", (indent) => {
  const file = { name: "a", taskRoles: { worker: { instances: 1 } }, secrets: null };
  const text = `${JSON.stringify(file, null, indent)}\n`;
  const named = withField(text, ["name"], "again");
  expect(named).toBe(text.replace('"a"', '"again"'));
  const more = withSecret(named, "t", "x");
  expect(more).toBe(
    `${JSON.stringify({ ...file, name: "again", secrets: { t: "x" } }, null, indent)}\n`,
  );
  expect(JSON.parse(withoutSecret(more, "t"))).not.toHaveProperty("secrets");
});

test("JSON in one line becomes a line for each value, and other texts stay as they are", () => {
  const text = '{\n  "name": "a",\n  "gpus": [\n    1\n  ]\n}';
  expect(withJsonLines('{"name":"a","gpus":[1]}')).toBe(text);
  expect(withJsonLines('{"name":"a","gpus":[1]}\n')).toBe(`${text}\n`);
  expect(withField('{"name":"b","gpus":[1]}', ["name"], "a")).toBe(text);
  for (const other of [TEXT, "{name: a}", '{\n"name": "a"}', "", "["])
    expect(withJsonLines(other)).toBe(other);
});
