import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aWaitReason } from "@/test/rows";
import { WaitReason } from "./WaitReason";

const soon = Date.now() / 1000 + 25 * 60;
const reason = aWaitReason("Needs 2 nodes of 8 A100; vision owns 4, 3 are used.", {
  needs: { gpus: 16, gpu_model: "A100", tasks: 2, shape: "2 nodes of 8 A100", whole_nodes: true },
  nodes: { owns: 4, used: 3, bad: 1, cordoned: 0, offline: 0 },
  used_by: [
    { gang: "j1", name: "bert", gpus: 8, until: soon },
    { gang: null, name: null, gpus: 4, until: null },
  ],
  more: 1,
  ahead: 1,
  expected_start: soon,
  opportunistic_now: true,
});

function figure(name: string): string | null | undefined {
  return screen.getByText(name, { selector: "dt" }).parentElement?.querySelector("dd")?.textContent;
}

test("the sentence comes with its numbers, who uses what until when, and the hint", async () => {
  renderPage(<WaitReason reason={reason} vc="vision" />);
  expect(await screen.findByText(reason.message)).toBeVisible();
  expect(figure("Needs")).toBe("2 nodes of 8 A100");
  expect(figure("vision owns")).toBe("4 nodes");
  expect(figure("Used")).toBe("3 nodes");
  expect(figure("Ahead")).toBe("1 job");
  expect(figure("Expected start")).toMatch(/\d\d:\d\d in about 25 min$/);
  expect(figure("Used by")).toMatch(/bert 8 GPUs, until about .*\d\d:\d\d/);
  expect(figure("Bad")).toBe("1 node");
  expect(figure("Used by")).toMatch(/another job 4 GPUs, end unknown.*and 1 more job$/);
  expect(screen.getByRole("link", { name: "bert" })).toHaveAttribute("href", "/jobs/j1");
  expect(screen.getByText(/could start now as opportunistic/)).toBeVisible();
});

test("who shares nodes sees numbers of GPUs", async () => {
  const needs = { ...reason.details.needs, whole_nodes: false };
  renderPage(<WaitReason reason={aWaitReason("Busy.", { needs, used: 24 })} vc="vision" />);
  await screen.findByText("Busy.");
  expect(figure("vision owns")).toBe("32 GPUs");
  expect(figure("Used")).toBe("24 GPUs");
});

test("an opportunistic job is shown the numbers of the whole cluster", async () => {
  const busy = { ...aWaitReason("Busy.", { used: 29 }), code: "cluster_busy" as const };
  renderPage(<WaitReason reason={busy} vc="vision" />);
  await screen.findByText("Busy.");
  expect(figure("Cluster has")).toMatch(/\d/);
});

test("a start that is not known is said to be so", async () => {
  renderPage(<WaitReason reason={aWaitReason("Busy.")} vc="vision" />);
  await screen.findByText("Busy.");
  expect(figure("Expected start")).toBe("unknown");
});

test("a reason of the platform is only its sentence", async () => {
  const postponed = { code: "commit_failed", message: "Not now.", details: { in_s: 5 } } as const;
  renderPage(<WaitReason reason={postponed} vc="vision" />);
  expect(await screen.findByText("Not now.")).toBeVisible();
  expect(screen.queryByRole("term")).toBeNull();
});

test("a code that the page does not know is only its sentence", async () => {
  const unknown = { code: "of_a_newer_server", message: "Wait.", details: {} };
  renderPage(<WaitReason reason={unknown as never} vc="vision" />);
  expect(await screen.findByText("Wait.")).toBeVisible();
  expect(screen.queryByRole("term")).toBeNull();
});
