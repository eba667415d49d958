import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import type { Assignment, CheckedAssignment } from "@/api/types";
import { renderPage } from "@/test/render";
import { aUser } from "@/test/rows";
import { refusal, serve } from "@/test/server";
import { CellsPage } from "./CellsPage";

const cells = {
  revision: 5,
  source: "inventory",
  pins: [],
  chains: [
    {
      chain: "A100-NODE8",
      gpu_model: "A100",
      nodes: 4,
      levels: [
        { type: "A100", level: 1, gpus: 1, kind: "gpu", words: "A100", is_node: false },
        {
          type: "A100-NODE8",
          level: 2,
          gpus: 8,
          kind: "node",
          words: "node of 8 A100",
          is_node: true,
        },
      ],
      totals: [],
    },
  ],
};
const assignment: Assignment = {
  revision: 5,
  virtual_clusters: {
    vision: {
      cells: [{ chain: "A100-NODE8", cell_type: "A100-NODE8", number: 2 }],
      quotas: {},
      pins: [],
    },
    nlp: { cells: [], quotas: {}, pins: [] },
  },
  pins: [],
};
const fits: CheckedAssignment = {
  revision: 5,
  fits: true,
  errors: [],
  left: [{ chain: "A100-NODE8", type: "A100-NODE8", total: 4, left: 2 }],
  downgraded: [],
  restored: [],
  shortfalls: [],
  problems: [],
};
const REFUSAL = "vision asks for 5 nodes of 8 A100; there are 4.";

function nodesOf(body: Assignment, vc: string): number {
  return body.virtual_clusters[vc]?.cells[0]?.number ?? 0;
}

/** As the server: it fits up to four nodes; of those that team nlp gets, one runs a job. */
async function check(request: Request): Promise<CheckedAssignment> {
  const body = (await request.json()) as Assignment;
  const touched = { job_id: "j1", name: "bert", virtual_cluster: "vision", reason: null };
  const downgraded = nodesOf(body, "nlp") > 0 ? [touched] : [];
  if (nodesOf(body, "vision") <= 4) return { ...fits, downgraded };
  const path = "virtual_clusters.vision.cells[0]";
  return { ...fits, fits: false, errors: [{ code: "short", message: REFUSAL, path, details: {} }] };
}

const world = {
  "GET /me": aUser({ is_admin: true }),
  "GET /cells": cells,
  "GET /cells/assignment": assignment,
  "GET /virtual-clusters": { results: [], next: null, previous: null },
  "POST /cells/assignment/check": check,
};

beforeEach(() => {
  document.cookie = "skep_csrf=x";
});

const nodes = (vc: string) => screen.findByRole("spinbutton", { name: `${vc}: node of 8 A100` });

async function type(vc: string, value: string) {
  const field = await nodes(vc);
  await userEvent.clear(field);
  await userEvent.type(field, value);
}

test("what does not fit is shown with numbers at its field, and cannot be saved", async () => {
  serve(world);
  renderPage(<CellsPage />);
  await type("vision", "5");
  expect(await screen.findByText("It does not fit")).toBeVisible();
  const field = await nodes("vision");
  expect(field).toBeInvalid();
  expect(field).toHaveAccessibleDescription(REFUSAL);
  expect(screen.getByRole("button", { name: "Save 1 change" })).toBeDisabled();
  await userEvent.click(screen.getByRole("button", { name: REFUSAL }));
  expect(field).toHaveFocus();
});

test("many keys make one check", async () => {
  const requests = serve(world);
  renderPage(<CellsPage />);
  const field = await nodes("vision");
  await screen.findByText("The assignment fits");
  await userEvent.click(field);
  await userEvent.keyboard("{ArrowUp}{ArrowUp}{ArrowDown}");
  await screen.findByText("It fits");
  const checks = requests.filter((request) => request.url.endsWith("/check"));
  expect(checks).toHaveLength(2);
  expect(nodesOf((await checks[1]?.json()) as Assignment, "vision")).toBe(3);
});

test("jobs that lose their guarantee are listed with links before saving", async () => {
  serve(world);
  renderPage(<CellsPage />);
  await type("nlp", "1");
  expect(await screen.findByText("1 job would run as opportunistic")).toBeVisible();
  expect(screen.getByRole("link", { name: "bert" })).toHaveAttribute("href", "/jobs/j1");
});

test("a save sends all of it with the revision, and nothing is left to save", async () => {
  const requests = serve({ ...world, "PUT /cells/assignment": { ...fits, revision: 6 } });
  renderPage(<CellsPage />);
  await type("vision", "3");
  const save = await screen.findByRole("button", { name: "Save 1 change" });
  await waitFor(() => expect(save).toBeEnabled());
  await userEvent.click(save);
  expect(await screen.findByRole("button", { name: "Save" })).toBeDisabled();
  const put = requests.find((request) => request.method === "PUT");
  const sent = (await put?.json()) as Assignment;
  expect(sent.revision).toBe(5);
  expect(nodesOf(sent, "vision")).toBe(3);
  expect(await nodes("vision")).toHaveValue("3");
});

test("when another user was faster, one reloads and keeps one's own changes in sight", async () => {
  const theirs = structuredClone(assignment);
  theirs.revision = 6;
  let saved = false;
  serve({
    ...world,
    "GET /cells/assignment": () => (saved ? theirs : assignment),
    "PUT /cells/assignment": () => {
      saved = true;
      return refusal(409, "revision_stale", "root saved revision 6 a moment ago.");
    },
  });
  theirs.virtual_clusters["nlp"]?.cells.push({
    chain: "A100-NODE8",
    cell_type: "A100-NODE8",
    number: 1,
  });
  renderPage(<CellsPage />);
  await type("vision", "3");
  const save = await screen.findByRole("button", { name: "Save 1 change" });
  await waitFor(() => expect(save).toBeEnabled());
  await userEvent.click(save);
  expect(await screen.findByRole("alert")).toHaveTextContent("root saved revision 6");
  expect(await nodes("vision")).toHaveValue("3");
  await userEvent.click(await screen.findByRole("button", { name: /keep my changes/ }));
  expect(await nodes("nlp")).toHaveValue("1");
  expect(await nodes("vision")).toHaveValue("3");
  expect(screen.queryByRole("alert")).toBeNull();
  await waitFor(() => expect(save).toBeEnabled());
});

test("edits are undone field by field, or discarded together", async () => {
  serve(world);
  renderPage(<CellsPage />);
  await type("vision", "3");
  await type("nlp", "1");
  const changes = screen.getByRole("complementary", { name: "These changes" });
  expect(within(changes).getByText("2 → 3")).toBeVisible();
  await userEvent.click(screen.getByRole("button", { name: "Undo" }));
  expect(await nodes("nlp")).toHaveValue("0");
  expect(await nodes("vision")).toHaveValue("3");
  await userEvent.click(screen.getByRole("button", { name: "Discard" }));
  expect(await nodes("vision")).toHaveValue("2");
  expect(screen.getByRole("button", { name: "Save" })).toBeDisabled();
});

test("members are sent away", async () => {
  serve({ ...world, "GET /me": aUser() });
  renderPage(<CellsPage />);
  expect(await screen.findByText("For administrators only")).toBeVisible();
});
