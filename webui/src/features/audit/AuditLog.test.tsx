import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { exportAddress } from "@/api/audit";
import type { AuditEntry } from "@/api/types";
import { renderPage } from "@/test/render";
import { refusal, serve } from "@/test/server";
import { AuditLog, ExportMenu } from "./AuditLog";
import { auditSearch, toFilter } from "./search";

const ENTRY: AuditEntry = {
  id: "019e0000-0000-7000-8000-000000000000",
  at: "2026-11-22T10:00:00Z",
  action: "vc.quota.update",
  outcome: "refused",
  actor: { kind: "user", id: 1, name: "mia" },
  token: { id: "019e0000-0000-7000-8000-000000000001", name: "laptop", scope: "admin" },
  address: "192.0.2.1",
  user_agent: "skep/1.0",
  request_id: "r-1",
  target: { type: "vc", id: "x", name: "vision" },
  virtual_cluster: "vision",
  before: { A100: 8, H100: 1 },
  after: { A100: 4 },
  facts: { code: "forbidden" },
};
const SYSTEM: AuditEntry = {
  ...ENTRY,
  id: "019e0000-0000-7000-8000-000000000002",
  action: "job.stop",
  outcome: "done",
  actor: { kind: "system", id: null, name: "" },
  token: null,
  before: null,
  after: null,
  facts: {},
};
const ACTIONS = {
  actions: [
    { name: "job.stop", target_type: "job", description: "A job was stopped." },
    { name: "job.submit", target_type: "job", description: "A job was submitted." },
    { name: "logout", target_type: "user", description: "A user logged out." },
  ],
};

function answer(results: AuditEntry[], next: string | null = null) {
  return serve({
    "GET /audit": { results, next, previous: null },
    "GET /audit/actions": ACTIONS,
    "GET /virtual-clusters": { results: [], next: null, previous: null },
  });
}

test("an entry opens to what changed and from where it was done", async () => {
  answer([ENTRY, SYSTEM]);
  renderPage(<AuditLog search={{}} onSearch={vi.fn()} />);
  expect(await screen.findByText("mia")).toBeVisible();
  expect(screen.getByText("refused")).toBeVisible();
  expect(screen.getByText("system")).toBeVisible();
  const details = screen.getByRole("button", { name: /^Details of vc.quota.update/ });
  expect(details).toHaveAttribute("aria-expanded", "false");
  await userEvent.click(details);
  const diff = screen.getByRole("table", { name: "What changed" });
  expect(within(diff).getByRole("row", { name: "A100 8 4" })).toBeVisible();
  expect(within(diff).getByRole("row", { name: "H100 1 –" })).toBeVisible();
  expect(screen.getByText("192.0.2.1")).toBeVisible();
  expect(screen.getByText("token laptop (admin)")).toBeVisible();
  await userEvent.click(details);
  expect(screen.queryByRole("table", { name: "What changed" })).toBeNull();
});

test("a year that is half typed is no filter, and stays while the address follows", async () => {
  answer([ENTRY]);
  const onSearch = vi.fn();
  renderPage(<AuditLog search={{}} onSearch={onSearch} />);
  const field = await screen.findByLabelText("From this day");
  for (const value of ["0002-11-23", "0202-11-23"]) {
    fireEvent.change(field, { target: { value } });
    expect(field).toHaveValue(value);
  }
  expect(onSearch).not.toHaveBeenCalled();
  fireEvent.change(field, { target: { value: "2026-11-23" } });
  expect(onSearch).toHaveBeenCalledWith({ cursor: undefined, from: "2026-11-23" });
  expect(field).toHaveValue("2026-11-23");
});

test("a filter asks for its first page, by what is in the address", async () => {
  const requests = answer([ENTRY]);
  const onSearch = vi.fn();
  renderPage(
    <AuditLog search={{ actor: "mia", cursor: "abc", from: "2026-11-01" }} onSearch={onSearch} />,
  );
  await screen.findByText("mia");
  const query = new URL(requests.find(({ url }) => url.includes("/audit?"))?.url ?? "")
    .searchParams;
  expect(query.get("actor")).toBe("mia");
  expect(query.get("cursor")).toBe("abc");
  expect(new Date(query.get("since") ?? "")).toEqual(new Date(2026, 10, 1));
  await userEvent.type(screen.getByLabelText("Name of the target"), "vis");
  await waitFor(() =>
    expect(onSearch).toHaveBeenCalledWith({
      actor: "mia",
      from: "2026-11-01",
      cursor: undefined,
      target: "vis",
    }),
  );
});

test("all actions of one kind can be chosen together", async () => {
  answer([ENTRY]);
  const onSearch = vi.fn();
  renderPage(<AuditLog search={{}} onSearch={onSearch} />);
  await screen.findByText("mia");
  await userEvent.click(screen.getByRole("combobox", { name: "Action" }));
  expect(screen.queryByRole("option", { name: "logout: all" })).toBeNull();
  await userEvent.click(await screen.findByRole("option", { name: "job: all" }));
  expect(onSearch).toHaveBeenCalledWith({ cursor: undefined, action: "job" });
});

test("the order is turned by the server", async () => {
  answer([ENTRY]);
  const onSearch = vi.fn();
  renderPage(<AuditLog search={{}} onSearch={onSearch} />);
  await screen.findByText("mia");
  await userEvent.click(screen.getByRole("button", { name: "Time" }));
  expect(onSearch).toHaveBeenCalledWith({ cursor: undefined, order: "at" });
});

test("of one virtual cluster neither its filter nor its column is shown", async () => {
  const requests = answer([ENTRY]);
  renderPage(<AuditLog search={{}} onSearch={vi.fn()} virtualCluster="vision" />);
  await screen.findByText("mia");
  expect(screen.queryByRole("columnheader", { name: "Virtual cluster" })).toBeNull();
  expect(screen.queryByRole("combobox", { name: "Virtual cluster" })).toBeNull();
  expect(requests.some(({ url }) => url.includes("virtual_cluster=vision"))).toBe(true);
});

test("an empty log and a filter without a match say so differently", async () => {
  answer([]);
  const { unmount } = renderPage(<AuditLog search={{}} onSearch={vi.fn()} />);
  expect(await screen.findByText("Nothing is recorded yet")).toBeVisible();
  unmount();
  renderPage(<AuditLog search={{ target: "x" }} onSearch={vi.fn()} />);
  expect(await screen.findByText("No entry matches")).toBeVisible();
});

test("an error offers to try again", async () => {
  serve({
    "GET /audit": () => refusal(503, "unavailable", "The database is away."),
    "GET /audit/actions": ACTIONS,
  });
  renderPage(<AuditLog search={{}} onSearch={vi.fn()} />);
  expect(await screen.findByRole("button", { name: "Try again" })).toBeVisible();
});

test("the export has the filter and not the page", async () => {
  renderPage(
    <ExportMenu search={{ actor: "mia", cursor: "abc", order: "at" }} virtualCluster="vision" />,
  );
  await userEvent.click(await screen.findByRole("button", { name: "Export" }));
  expect(await screen.findByRole("menuitem", { name: /CSV/ })).toHaveAttribute(
    "href",
    "/api/v1/audit/export?format=csv&actor=mia&virtual_cluster=vision",
  );
  expect(exportAddress({}, "jsonl")).toBe("/api/v1/audit/export?format=jsonl");
});

test("nothing but what is known is read from an address", () => {
  const search = auditSearch({
    from: "tomorrow",
    to: "2026-02-31x",
    outcome: "maybe",
    order: "actor",
    actor: 7,
  });
  expect(toFilter(search)).toEqual({ actor: "7", ordering: "-at" });
});
