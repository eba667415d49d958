import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import type { Simulation, SimulationBody, SimulationOptions } from "@/api/simulations";
import { renderPages } from "@/test/render";
import { refusal, serve } from "@/test/server";
import { SimulationPage } from "./SimulationPage";
import { SimulatorPage } from "./SimulatorPage";

// It draws on a canvas, which jsdom lacks.
vi.mock("uplot", () => ({
  default: class {
    static paths = {};
    setData() {
      return undefined;
    }
    setSize() {
      return undefined;
    }
    destroy() {
      return undefined;
    }
  },
}));

const PAGES = { "/simulator": SimulatorPage, "/simulator/$id": SimulationPage };
const ID = "0190a3f0-0000-7000-8000-000000000001";

const options: SimulationOptions = {
  policies: [
    { name: "priority_ageing", family: "order", placements: ["cells"] },
    { name: "srtf", family: "order", placements: ["cells", "nodes"] },
    { name: "fifo", family: "order", placements: ["cells", "nodes"] },
  ],
  virtual_clusters: ["nlp", "vision"],
  whole_cluster: false,
  most_jobs: { cells: 2000, nodes: 50_000 },
  most_policies: 6,
  most_seconds: 300,
};
const cluster = {
  shape: "2x8xA100",
  groups: [{ nodes: 2, gpus: 8, gpu_model: "A100" }],
  owned: [{ virtual_cluster: "vision", gpu_model: "A100", gpus: 8 }],
};

function aRun(policy: string, mean_s: number): Simulation["runs"][number] {
  return {
    scenario: "as_is",
    figures: {
      policy,
      jobs: 3,
      finished: 2,
      avg_jct_s: mean_s,
      p50_jct_s: mean_s,
      p95_jct_s: mean_s,
      p99_jct_s: mean_s,
      avg_wait_s: mean_s / 2,
      p99_wait_s: mean_s,
      wait_max_s: 259_200,
      starved: 17,
      starved_after_s: 86_400,
      makespan_s: 86_400,
      utilisation: 0.75,
      rho_max: 1.5,
      preemptions: 4,
      deadlines: 0,
      deadlines_met: 0,
    },
    series: [
      [0, 0, 4],
      [60, 1, 8],
    ],
  };
}

function aSimulation(part: Partial<Simulation> = {}): Simulation {
  return {
    id: ID,
    owner: "ann",
    virtual_cluster: "vision",
    state: "SUCCEEDED",
    source: "history",
    policies: ["fifo", "srtf"],
    jobs_total: 6,
    jobs_ended: 6,
    created_at: "2026-01-01T00:00:00Z",
    started_at: "2026-01-01T00:00:01Z",
    finished_at: "2026-01-01T00:00:09Z",
    error: null,
    request: {
      since: "2025-12-01T00:00:00Z",
      until: "2026-01-01T00:00:00Z",
      jobs: 500,
      load: 0.9,
      seed: 0,
      placement: "cells",
      restart_s: 0,
      changes: [],
      policy_of: "",
      node_events: false,
    },
    forecast: null,
    now: null,
    runs: [],
    ...part,
  };
}

const answers = {
  "GET /simulations/options": options,
  "GET /simulations/cluster": cluster,
  "GET /simulations": { results: [], next_cursor: null },
};

beforeEach(() => {
  document.cookie = "skep_csrf=x";
});

test("what was chosen is asked, and leads to its result", async () => {
  const requests = serve({
    ...answers,
    "POST /simulations": aSimulation({ state: "QUEUED" }),
    [`GET /simulations/${ID}`]: aSimulation({ runs: [aRun("fifo", 3600)] }),
  });
  renderPages(PAGES, "/simulator?vc=vision&policies=fifo,srtf");
  const form = await screen.findByRole("form", { name: "What to simulate" });
  await userEvent.click(within(form).getByRole("radio", { name: "Fast, one pool" }));
  await userEvent.click(await within(form).findByRole("button", { name: /vision had more/ }));
  await userEvent.click(within(form).getByRole("button", { name: "Simulate" }));
  expect(await screen.findByRole("heading", { name: "Simulation" })).toBeVisible();
  const asked = requests.find(({ method }) => method === "POST");
  const body = (await asked?.json()) as SimulationBody;
  expect(body).toMatchObject({
    virtual_cluster: "vision",
    source: "history",
    policies: ["fifo", "srtf"],
    placement: "nodes",
    changes: [{ virtual_cluster: "vision", gpu_model: "A100", gpus: 16 }],
  });
  expect(Date.parse(body.until ?? "") - Date.parse(body.since ?? "")).toBe(30 * 86_400_000);
});

test("of the whole cluster nodes are as they were, unless that is not wanted", async () => {
  const requests = serve({
    ...answers,
    "GET /simulations/options": { ...options, whole_cluster: true },
    "POST /simulations": aSimulation({ state: "QUEUED" }),
    [`GET /simulations/${ID}`]: aSimulation({
      request: { ...aSimulation().request, node_events: true },
    }),
  });
  renderPages(PAGES, "/simulator?policies=fifo");
  const form = await screen.findByRole("form", { name: "What to simulate" });
  const wish = within(form).getByRole("checkbox", { name: "Nodes as they were" });
  expect(wish).toBeChecked();
  await userEvent.click(within(form).getByRole("radio", { name: "Fast, one pool" }));
  expect(wish).not.toBeInTheDocument();
  await userEvent.click(within(form).getByRole("radio", { name: "As the live scheduler" }));
  await userEvent.click(within(form).getByRole("button", { name: "Simulate" }));
  expect(await screen.findByText("Nodes as they were")).toBeVisible();
  const asked = requests.find(({ method }) => method === "POST");
  expect(await asked?.json()).toMatchObject({ virtual_cluster: "", node_events: true });
});

test("what waits and runs now is asked of the cluster with other nodes and quotas", async () => {
  const moved = {
    id: ID,
    name: "train",
    owner: "ann",
    state: "waiting" as const,
    by_s: null,
    old_start_at: 1_767_225_600,
    new_start_at: null,
    old_end_at: 1_767_229_200,
    new_end_at: null,
  };
  const side = {
    scenario: "as_is" as const,
    policy: "fifo",
    starting: 3,
    avg_start_s: 3600,
    p95_start_s: 7200,
    avg_end_s: 7200,
    p95_end_s: 10_800,
    never_end: 0,
    gaining: 0,
    losing: 0,
    gains: [],
    losses: [],
    hidden: 0,
  };
  const worse = { ...side, policy: "srtf", never_end: 1, losing: 2, losses: [moved], hidden: 1 };
  const requests = serve({
    ...answers,
    "GET /simulations/options": { ...options, whole_cluster: true },
    "POST /simulations": aSimulation({ source: "now", state: "QUEUED" }),
    [`GET /simulations/${ID}`]: aSimulation({
      source: "now",
      runs: [aRun("fifo", 3600), aRun("srtf", 1800)],
      now: {
        at: 1_767_222_000,
        running: 2,
        waiting: 3,
        unknown_durations: 1,
        opportunistic: 0,
        sides: [side, worse],
      },
    }),
  });
  renderPages(PAGES, "/simulator?policies=srtf");
  const form = await screen.findByRole("form", { name: "What to simulate" });
  await userEvent.click(within(form).getByRole("combobox", { name: "Jobs" }));
  await userEvent.click(screen.getByRole("option", { name: "that wait and run now" }));
  expect(within(form).queryByRole("radio", { name: "Fast, one pool" })).toBeNull();
  await userEvent.click(within(form).getByRole("combobox", { name: "Of" }));
  await userEvent.click(screen.getByRole("option", { name: "vision" }));
  await userEvent.click(await within(form).findByRole("button", { name: /more or fewer nodes/ }));
  await userEvent.click(within(form).getByRole("button", { name: /another quota/ }));
  await userEvent.click(within(form).getByRole("button", { name: "Simulate" }));

  const table = await screen.findByRole("table", { name: "Starts and ends of waiting jobs" });
  expect(within(table).getAllByRole("row")[2]).toHaveTextContent(/srtf/);
  const worst = screen.getByRole("table", { name: "End later under srtf: 2 jobs" });
  expect(within(worst).getByRole("link", { name: "train" })).toHaveAttribute("href", `/jobs/${ID}`);
  expect(within(worst).getAllByText("never")).toHaveLength(2);
  expect(screen.getByText("1 job that you may not see not listed.")).toBeVisible();
  const asked = requests.find(({ method }) => method === "POST");
  expect(await asked?.json()).toMatchObject({
    virtual_cluster: "",
    source: "now",
    policies: ["srtf"],
    policy_of: "vision",
    placement: "cells",
    changes: [
      { virtual_cluster: "", gpu_model: "A100", gpus: 16 },
      { virtual_cluster: "nlp", gpu_model: "A100", gpus: 16 },
    ],
  });
});

test("a refusal is shown in the server's words, and the form stays", async () => {
  const message = "Another simulation of yours is not over. Wait for it, or stop it.";
  serve({ ...answers, "POST /simulations": refusal(409, "simulation_active", message) });
  renderPages(PAGES, "/simulator");
  await userEvent.click(await screen.findByRole("button", { name: "Simulate" }));
  expect(await screen.findByRole("alert")).toHaveTextContent(message);
  expect(screen.getByRole("button", { name: "Simulate" })).toBeEnabled();
});

test("who manages no virtual cluster is told how to simulate without the server", async () => {
  serve({ ...answers, "GET /simulations/options": { ...options, virtual_clusters: [] } });
  renderPages(PAGES, "/simulator");
  expect(await screen.findByText("Simulations on the server are for VC admins")).toBeVisible();
  expect(screen.getByText(/skep simulate --trace history/)).toBeVisible();
  expect(screen.queryByRole("form")).toBeNull();
});

test("earlier simulations lead to their results", async () => {
  serve({ ...answers, "GET /simulations": { results: [aSimulation()], next_cursor: null } });
  renderPages(PAGES, "/simulator");
  const link = await screen.findByRole("link", { name: "fifo, srtf" });
  expect(link).toHaveAttribute("href", `/simulator/${ID}`);
});

test("a result has the figures of each policy, compared to the first", async () => {
  serve({
    [`GET /simulations/${ID}`]: aSimulation({ runs: [aRun("fifo", 3600), aRun("srtf", 1800)] }),
  });
  renderPages(PAGES, `/simulator/${ID}`);
  const table = await screen.findByRole("table", { name: "Figures of each policy" });
  expect(within(table).getByRole("columnheader", { name: /Longest wait/ })).toBeVisible();
  expect(within(table).getAllByText("17")).toHaveLength(2);
  const [, fifo, srtf] = within(table).getAllByRole("row");
  expect(fifo).toHaveTextContent(/fifo.*1h.*75%.*1\.50.*4/);
  expect(srtf).toHaveTextContent(/srtf.*30m/);
  expect(screen.getAllByText("−50%")).toHaveLength(2); // completion and wait
  expect(screen.getByText(/never start/)).toHaveTextContent("1 under fifo; 1 under srtf");
  expect(screen.queryByRole("button", { name: "Stop" })).toBeNull();
});

test("a simulation that runs says how far it is, and stops when it is asked to", async () => {
  const requests = serve({
    [`GET /simulations/${ID}`]: aSimulation({ state: "RUNNING", jobs_ended: 3 }),
    [`POST /simulations/${ID}/stop`]: aSimulation({ state: "STOPPED" }),
  });
  renderPages(PAGES, `/simulator/${ID}`);
  expect(await screen.findByText(/3 of 6 jobs have ended/)).toBeVisible();
  await userEvent.click(screen.getByRole("button", { name: "Stop" }));
  expect(await screen.findByText("It was stopped")).toBeVisible();
  await waitFor(() => expect(screen.queryByRole("button", { name: "Stop" })).toBeNull());
  expect(requests.some(({ method }) => method === "POST")).toBe(true);
});

test("a simulation that failed says why, and one that is not there is none", async () => {
  const error = { code: "no_jobs", message: "No job has ended in this time." };
  serve({ [`GET /simulations/${ID}`]: aSimulation({ state: "FAILED", error }) });
  const drawn = renderPages(PAGES, `/simulator/${ID}`);
  expect(await screen.findByText("It has no result")).toBeVisible();
  expect(screen.getByText(error.message)).toBeVisible();
  expect(screen.getByRole("link", { name: "Simulate again" })).toBeVisible();
  drawn.unmount();
  serve({});
  renderPages(PAGES, `/simulator/${ID}`);
  expect(await screen.findByText("No such simulation")).toBeVisible();
});

test("a lone sign changes no number of GPUs, and makes way for it", async () => {
  const requests = serve({
    ...answers,
    "POST /simulations": aSimulation({ state: "QUEUED" }),
    [`GET /simulations/${ID}`]: aSimulation({ runs: [aRun("fifo", 3600)] }),
  });
  renderPages(PAGES, "/simulator?vc=vision&policies=fifo");
  const form = await screen.findByRole("form", { name: "What to simulate" });
  await userEvent.click(await within(form).findByRole("button", { name: /vision had more/ }));
  const field = within(form).getByRole("textbox", { name: "GPUs more, or fewer" });
  await userEvent.clear(field);
  await userEvent.type(field, "-{Enter}");
  expect(requests.filter(({ method }) => method === "POST")).toHaveLength(0);
  await userEvent.tab();
  expect(field).toHaveValue("+16");
  await userEvent.clear(field);
  await userEvent.type(field, "-8");
  await userEvent.click(within(form).getByRole("button", { name: "Simulate" }));
  await screen.findByRole("heading", { name: "Simulation" });
  const body = (await requests.find(({ method }) => method === "POST")?.json()) as SimulationBody;
  expect(body.changes).toEqual([{ virtual_cluster: "vision", gpu_model: "A100", gpus: -8 }]);
});
