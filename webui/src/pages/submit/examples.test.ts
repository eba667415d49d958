import { expect, test } from "vitest";
import { parse } from "yaml";
import { EXAMPLES } from "./examples";

test.each(EXAMPLES)("$title is a job file for the visitor's own virtual cluster", (example) => {
  const job = parse(example.text({ virtualCluster: "vision", image: "python:3.12" }));
  expect(job).toMatchObject({ protocolVersion: 2, type: "job" });
  expect(job.defaults.virtualCluster).toBe("vision");
  expect(job.prerequisites[0].uri).toBe("python:3.12");
});

interface Role {
  instances: number;
  resourcePerInstance: { cpu: number; memoryMB: number; gpu: number };
  commands: string[];
}

test.each(EXAMPLES)("finding U14: $title fits a small node and needs no file", (example) => {
  const job = parse(example.text({ virtualCluster: "default", image: "busybox" }));
  const roles = Object.values(job.taskRoles as Record<string, Role>);
  const sum = (of: keyof Role["resourcePerInstance"]) =>
    roles.reduce((all, role) => all + role.instances * role.resourcePerInstance[of], 0);
  expect(sum("gpu")).toBeLessThanOrEqual(2);
  expect(sum("cpu")).toBeLessThanOrEqual(4);
  expect(sum("memoryMB")).toBeLessThanOrEqual(4096);
  // Nothing but the shell of any image.
  const words = roles.flatMap((role) => role.commands.map((command) => command.split(" ")[0]));
  for (const word of words) expect(["echo", "for", "sleep"]).toContain(word);
});
