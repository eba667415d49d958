import { expect, test } from "vitest";
import { parse } from "yaml";
import { EXAMPLES } from "./examples";

test.each(EXAMPLES)("$title is a job file for the visitor's own virtual cluster", (example) => {
  const job = parse(example.text({ virtualCluster: "vision", image: "python:3.12" }));
  expect(job).toMatchObject({ protocolVersion: 2, type: "job" });
  expect(job.defaults.virtualCluster).toBe("vision");
  expect(job.prerequisites[0].uri).toBe("python:3.12");
});
