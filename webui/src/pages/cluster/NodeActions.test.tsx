import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import type { Node, NodeForecast } from "@/api/types";
import { renderPage } from "@/test/render";
import { aNode } from "@/test/rows";
import { serve } from "@/test/server";
import { NodeActions } from "./NodeActions";

const NODE_TYPE = "A100-NODE8";
const level = { level: 2, gpus: 8, kind: "node", words: "node of 8 A100", is_node: true };
const forecast: NodeForecast = {
  jobs: [
    {
      id: "j1",
      name: "bert",
      owner: "mei",
      virtual_cluster: "vision",
      gpus: 16,
      tasks: 1,
      what: "preempted",
    },
    {
      id: null,
      name: null,
      owner: null,
      virtual_cluster: "nlp",
      gpus: 2,
      tasks: 2,
      what: "preempted",
    },
  ],
  virtual_clusters: [{ name: "vision", loses: { [NODE_TYPE]: 1 } }],
};
const chain = {
  chain: NODE_TYPE,
  gpu_model: "A100",
  nodes: 2,
  levels: [{ type: NODE_TYPE, ...level }],
  totals: [],
};
const world = {
  "GET /cells": { revision: 1, source: "inventory", chains: [chain], pins: [] },
  "GET /nodes/hive-01/forecast": forecast,
  "POST /nodes/hive-01/drain": aNode(),
  "POST /nodes/hive-01/undrain": aNode(),
};

beforeEach(() => {
  document.cookie = "skep_csrf=x";
});

const draw = (node: Partial<Node> = {}) =>
  renderPage(<NodeActions node={aNode({ empty: false, ...node })} onRemoved={vi.fn()} />);
const press = async (name: string) => userEvent.click(await screen.findByRole("button", { name }));

test("before a drain one sees whose jobs restart and who does without which cells", async () => {
  const requests = serve(world);
  draw();
  await press("Drain");
  const dialog = await screen.findByRole("dialog", { name: "Drain hive-01?" });
  expect(await within(dialog).findByText("2 jobs would restart from the queue")).toBeVisible();
  expect(within(dialog).getByRole("link", { name: "bert" })).toHaveAttribute("href", "/jobs/j1");
  expect(within(dialog).getByText("another job of nlp")).toBeVisible();
  expect(await within(dialog).findByText("1 × node of 8 A100")).toBeVisible();
  expect(requests.some((request) => request.method === "POST")).toBe(false);
  await userEvent.click(within(dialog).getByRole("button", { name: "Drain hive-01" }));
  await waitFor(() => expect(requests.some((each) => each.url.endsWith("/drain"))).toBe(true));
});

test("a node that something runs on cannot be removed, and one sees what", async () => {
  const jobs = forecast.jobs.map((job) => ({ ...job, what: "lost" }));
  serve({ ...world, "GET /nodes/hive-01/forecast": { ...forecast, jobs } });
  draw();
  await press("Remove");
  expect(await screen.findByText("2 jobs still run here")).toBeVisible();
  expect(screen.getByRole("button", { name: "Remove hive-01" })).toBeDisabled();
});

test("a draining node shows who is still there, and may be taken back at once", async () => {
  const requests = serve(world);
  draw({ cordoned: true, draining: true });
  expect(await screen.findByText("2 jobs still here")).toBeVisible();
  expect(screen.queryByRole("button", { name: "Drain" })).toBeNull();
  await press("Undrain");
  await waitFor(() => expect(requests.some((each) => each.url.endsWith("/undrain"))).toBe(true));
});
