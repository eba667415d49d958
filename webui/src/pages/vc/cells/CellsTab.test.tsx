import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import type { OwnedType, VcCells } from "@/api/virtualClusters";
import { A100, aCell, aChain } from "@/test/cells";
import { renderPage } from "@/test/render";
import { refusal, serve } from "@/test/server";
import { CellsTab } from "./CellsTab";

vi.mock("@/live/live", () => ({ useLiveQueries: () => undefined, usePoll: () => false }));

const train = { id: "j1", name: "train" };
const gpu = aCell("gpu", "v/0/0/0", {
  state: "used",
  used: 1,
  job: train,
  physical: { address: "p", node: "n1" },
});
const lent = aCell("gpu", "v/0/0/1", { state: "lent", lent: 1 });
const node = aCell("node", "v/0", {
  used: 1,
  lent: 1,
  physical: { address: "n", node: "n1" },
  children: [
    aCell("half", "v/0/0", { used: 1, lent: 1, children: [gpu, lent] }),
    aCell("half", "v/0/1"),
  ],
});
const type: OwnedType = {
  type: "node",
  kind: "node",
  words: "node of 8 A100",
  gpus: 8,
  owned: 5,
  used: 1,
  free: 1,
  bad: 1,
  missing: 1,
  borrowed_out: 1,
};

function show(part: Partial<VcCells>, over?: "nodes") {
  const requests = serve({
    "GET /cells": { revision: 1, source: "inventory", chains: [A100], pins: [] },
    "GET /virtual-clusters/vision/cells": (request: Request) => {
      const under = new URL(request.url).searchParams.get("under");
      const cells = under ? [aCell("node", under)] : [node];
      return {
        chains: [aChain(cells, { types: [type] })],
        borrowed_in: 0,
        shortfalls: [],
        ...(!under && part),
      };
    },
  });
  renderPage(<CellsTab name="vision" admin={false} over={over} />);
  return requests;
}

test("each type shows how many are used, lent, free, bad and missing", async () => {
  show({});
  const bar = await screen.findByRole("img", { name: /^node of 8 A100/ });
  expect(bar).toHaveAccessibleName(
    "node of 8 A100: 1 in use, 1 lent out, 1 free, 1 bad or cordoned, 1 missing",
  );
});

test("screen readers read of every cell what it is, where it lies and who uses it", async () => {
  show({});
  const tree = await screen.findByRole("tree", { name: "A100: cells as they are owned" });
  for (const name of [
    "node of 8 A100 on n1: 1 of 8 GPUs in use, 1 lent out",
    "A100 on n1: in use by train",
    "A100 on n1: lent to another team until it is needed",
  ]) {
    expect(within(tree).getByRole("treeitem", { name })).toBeVisible();
  }
});

test("a GPU in use on a cordoned node is drawn and called otherwise than a bad one", async () => {
  const leaving = aCell("gpu", "v/1/0/0", { ...gpu, address: "v/1/0/0", state: "bad", bad: 1 });
  const unused = aCell("gpu", "v/1/0/1", { state: "bad", bad: 1 });
  const closed = aCell("half", "v/1/0", { used: 1, bad: 2, children: [leaving, unused] });
  show({ chains: [aChain([closed])] });
  const item = await screen.findByRole("treeitem", {
    name: /^A100 on n1: in use by train; bad, or on a cordoned node/,
  });
  const other = screen.getByRole("treeitem", { name: /^A100: bad, or on a cordoned node/ });
  const marks = [item, other].map((each) => each.querySelector("path + path")?.getAttribute("d"));
  expect(new Set(marks).size).toBe(2);
  expect(
    screen.getByRole("treeitem", { name: /1 of 4 GPUs in use, 2 bad or cordoned/ }),
  ).toBeVisible();
  expect(
    within(screen.getByRole("list", { name: "Legend" })).getAllByRole("listitem"),
  ).toHaveLength(6);
  expect(screen.getByText("In use, bad or cordoned")).toBeVisible();
});

test("the arrow keys walk the tree, which is one stop of the tab key", async () => {
  show({});
  const tree = await screen.findByRole("tree");
  tree.focus();
  const active = () =>
    document.getElementById(tree.getAttribute("aria-activedescendant") ?? "")?.dataset["cell"];
  for (const [key, cell] of [
    ["{ArrowDown}", "v/0"],
    ["{ArrowRight}", "v/0/0"],
    ["{ArrowRight}", "v/0/0/0"],
    ["{ArrowDown}", "v/0/0/1"],
    ["{ArrowLeft}", "v/0/0"],
    ["{End}", "v/0/1/3"],
    ["{Home}", "v/0"],
  ] as const) {
    await userEvent.keyboard(key);
    expect(active()).toBe(cell);
  }
  expect(screen.getByRole("tooltip")).toHaveTextContent("Node of 8 A100");
});

test("the jobs on the cells are links", async () => {
  show({});
  const jobs = await screen.findByRole("list", { name: "Jobs on these cells" });
  expect(within(jobs).getByRole("link", { name: /^train.*1.*GPU$/ })).toHaveAttribute(
    "href",
    "/jobs/j1",
  );
});

test("a cell that was too large to send is asked for when it is opened", async () => {
  const closed = aCell("node", "v/9", { children: null });
  const requests = show({ chains: [aChain([closed])] });
  const item = await screen.findByRole("treeitem", { expanded: false });
  await userEvent.click(item);
  expect(await screen.findAllByRole("treeitem", { name: /^A100/ })).toHaveLength(8);
  expect(requests.some((request) => request.url.includes("under=v%2F9"))).toBe(true);
});

test("over the nodes, what is not used yet is shown in words", async () => {
  show({ chains: [aChain([node, aCell("node", "v/1"), aCell("half", "h")])] }, "nodes");
  const tree = await screen.findByRole("tree", { name: "A100: cells on their nodes" });
  expect(within(tree).getAllByRole("treeitem", { name: /^node of 8/ })).toHaveLength(1);
  expect(screen.getByText(/Not used yet: 1 × node of 8 A100, 1 × half node of 4/)).toBeVisible();
});

test("who owns nothing is shown what can be done", async () => {
  show({ chains: [], borrowed_in: 3 });
  expect(await screen.findByText(/opportunistic ones.*Now they use 3 GPUs/)).toBeVisible();
});

test("what the cluster cannot give any more is said", async () => {
  const short = { virtual_cluster: "vision", chain: "a100", cell_type: "node", asked: 5, got: 4 };
  show({ shortfalls: [short] });
  expect(await screen.findByRole("alert")).toHaveTextContent("has only 4 of them");
});

test("more cells that could not be read are said, and read again", async () => {
  let away = true;
  const first = aChain([node], { types: [type], more: 1 });
  serve({
    "GET /cells": { revision: 1, source: "inventory", chains: [A100], pins: [] },
    "GET /virtual-clusters/vision/cells": (request: Request) => {
      const more = new URL(request.url).searchParams.has("after");
      if (more && away) return refusal(503, "database_away", "The database is away.");
      const chain = more ? aChain([aCell("half", "v/7")]) : first;
      return { chains: [chain], borrowed_in: 0, shortfalls: [] };
    },
  });
  renderPage(<CellsTab name="vision" admin={false} over={undefined} />);
  await userEvent.click(await screen.findByRole("button", { name: "Show more (1 left)" }));
  expect(await screen.findByRole("alert")).toHaveTextContent(
    "The rest of the cells could not be read: The database is away.",
  );
  away = false;
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  await waitFor(() =>
    expect(screen.getAllByRole("treeitem", { name: /^half node of 4 A100/ })).toHaveLength(3),
  );
  expect(screen.queryByRole("alert")).toBeNull();
});
