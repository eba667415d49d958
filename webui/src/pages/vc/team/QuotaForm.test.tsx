import { screen, waitFor } from "@testing-library/react";
import { useQuery } from "@tanstack/react-query";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { VirtualCluster } from "@/api/types";
import { virtualCluster } from "@/api/virtualClusters";
import { renderPage } from "@/test/render";
import { refusal, serve } from "@/test/server";
import { QuotaForm } from "./QuotaForm";

const vc: VirtualCluster = {
  name: "vision",
  description: "",
  quotas: { A100: 8 },
  cells: [],
  pins: [],
  used: { A100: 2 },
  role: null,
  members: 1,
  job_visibility: "owner",
  default_image: "",
  policy: { name: "priority_ageing", parameters: {} },
  may_manage: true,
};
const page = { results: [vc], next: null, previous: null };
const cluster = {
  nodes: {},
  gpus: { A100: { total: 16, used: 2, bad: 0 } },
  jobs: {},
  version: "1",
};
const cells = { revision: 1, source: "inventory", chains: [], pins: [], gpus: [] };
const read = { "GET /virtual-clusters": page, "GET /cluster": cluster, "GET /cells": cells };

async function change(value: string) {
  renderPage(<QuotaForm vc={vc} />);
  const field = await screen.findByRole("textbox", { name: "A100" });
  await userEvent.clear(field);
  await userEvent.type(field, value);
  await userEvent.click(screen.getByRole("button", { name: "Save quotas" }));
}

test("all quotas are saved together", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({
    ...read,
    "PUT /virtual-clusters/vision/quotas": { ...vc, quotas: { A100: 12 } },
  });
  await change("12");
  const put = requests.find((request) => request.method === "PUT");
  expect(await put?.json()).toEqual({ quotas: { A100: 12 }, before: { A100: 8 } });
});

test("a refusal shows the server's sentence, and the draft stays", async () => {
  serve({
    ...read,
    "PUT /virtual-clusters/vision/quotas": refusal(
      409,
      "quota_exceeds_cluster",
      "The cluster has 16 A100; this would give away 90.",
    ),
  });
  await change("90");
  expect(await screen.findByRole("alert")).toHaveTextContent("would give away 90");
  expect(screen.getByRole("textbox", { name: "A100" })).toHaveValue("90");
});

test("nothing to save, nothing to press", async () => {
  serve(read);
  renderPage(<QuotaForm vc={vc} />);
  expect(await screen.findByRole("button", { name: "Save quotas" })).toBeDisabled();
});

/** The form as its page draws it: of what was read last. */
function Page() {
  const { data } = useQuery(virtualCluster("vision"));
  return data ? <QuotaForm vc={data} /> : null;
}

test("what another administrator saved meanwhile is shown, and not overwritten", async () => {
  document.cookie = "skep_csrf=x";
  let saved: VirtualCluster = { ...vc, quotas: { A100: 8, T4: 2 } };
  const requests = serve({
    ...read,
    "GET /virtual-clusters/vision": () => saved,
    "PUT /virtual-clusters/vision/quotas": async (request: Request) => {
      const { quotas, before } = (await request.json()) as Record<string, Record<string, number>>;
      if (before?.["T4"] !== saved.quotas["T4"])
        return refusal(409, "quotas_stale", "Someone else has changed the quotas meanwhile.");
      saved = { ...saved, quotas: quotas ?? {} };
      return saved;
    },
  });
  renderPage(<Page />);
  const field = await screen.findByRole("textbox", { name: "A100" });
  await userEvent.clear(field);
  await userEvent.type(field, "12");
  saved = { ...saved, quotas: { A100: 8, T4: 4 } };
  await userEvent.click(screen.getByRole("button", { name: "Save quotas" }));
  const notice = await screen.findByText(/Now saved: T4 4 \(2 before\)\./);
  expect(notice).toBeVisible();
  expect(screen.getByRole("button", { name: "Save quotas" })).toBeDisabled();

  await userEvent.click(screen.getByRole("button", { name: /keep my changes/ }));
  expect(screen.getByRole("textbox", { name: "T4" })).toHaveValue("4");
  expect(field).toHaveValue("12");
  await userEvent.click(screen.getByRole("button", { name: "Save quotas" }));
  await waitFor(() => expect(saved.quotas).toEqual({ A100: 12, T4: 4 }));
  expect(requests.filter(({ method }) => method === "PUT")).toHaveLength(2);
  await waitFor(() => expect(screen.queryByRole("alert")).toBeNull());
});

test("quotas are saved by a server of the version before, which cannot check them", async () => {
  document.cookie = "skep_csrf=x";
  const sent: unknown[] = [];
  serve({
    ...read,
    "PUT /virtual-clusters/vision/quotas": async (request: Request) => {
      const body = (await request.json()) as Record<string, unknown>;
      sent.push(body);
      return "before" in body
        ? refusal(400, "invalid", "Some fields are not valid.", {
            fields: { before: ["Unknown field."] },
          })
        : { ...vc, quotas: { A100: 12 } };
    },
  });
  await change("12");
  await waitFor(() => expect(sent).toHaveLength(2));
  expect(sent[1]).toEqual({ quotas: { A100: 12 } });
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a change right after one's own save is not said to come after another administrator's", async () => {
  document.cookie = "skep_csrf=x";
  let saved: VirtualCluster | null = null;
  const requests = serve({
    ...read,
    // From the save on no answer of it comes before the end of the test.
    "GET /virtual-clusters/vision": () => (saved ? new Promise(() => undefined) : vc),
    "PUT /virtual-clusters/vision/quotas": () => (saved = { ...vc, quotas: { A100: 12 } }),
  });
  renderPage(<Page />);
  const field = await screen.findByRole("textbox", { name: "A100" });
  await userEvent.clear(field);
  await userEvent.type(field, "12");
  await userEvent.click(screen.getByRole("button", { name: "Save quotas" }));
  const reads = () => requests.filter(({ url }) => url.endsWith("/virtual-clusters/vision"));
  await waitFor(() => expect(reads()).toHaveLength(2));
  await userEvent.type(field, "0");
  expect(field).toHaveValue("120");
  expect(screen.queryByText(/Another administrator/)).toBeNull();
  expect(screen.queryByRole("alert")).toBeNull();
});

test("an emptied field is a mistake, and not 0", async () => {
  const requests = serve(read);
  renderPage(<QuotaForm vc={vc} />);
  const field = await screen.findByRole("textbox", { name: "A100" });
  await userEvent.clear(field);
  expect(field).toBeInvalid();
  expect(field).toHaveAccessibleDescription(expect.stringContaining("Enter a number"));
  const save = screen.getByRole("button", { name: "Save quotas" });
  expect(save).toBeDisabled();
  await userEvent.type(field, "4");
  expect(save).toBeEnabled();
  expect(requests.filter(({ method }) => method === "PUT")).toHaveLength(0);
});

test("what is changed while the quotas are saved stays, and is saved next", async () => {
  document.cookie = "skep_csrf=x";
  let saved: VirtualCluster = vc;
  let answer: () => void = () => undefined;
  const requests = serve({
    ...read,
    "GET /virtual-clusters/vision": () => saved,
    "PUT /virtual-clusters/vision/quotas": async (request: Request) => {
      const { quotas } = (await request.json()) as { quotas: Record<string, number> };
      await new Promise<void>((resolve) => (answer = resolve));
      saved = { ...vc, quotas };
      return saved;
    },
  });
  const puts = () => requests.filter(({ method }) => method === "PUT");
  renderPage(<Page />);
  const field = await screen.findByRole("textbox", { name: "A100" });
  await userEvent.clear(field);
  await userEvent.type(field, "12");
  await userEvent.click(screen.getByRole("button", { name: "Save quotas" }));
  await waitFor(() => expect(puts()).toHaveLength(1));
  await userEvent.clear(field);
  await userEvent.type(field, "14");
  // The second save waits for the first one.
  expect(screen.getByRole("button", { name: "Save quotas" })).toBeDisabled();
  answer();
  const save = screen.getByRole("button", { name: "Save quotas" });
  await waitFor(() => expect(save).toBeEnabled());
  expect(field).toHaveValue("14");
  expect(screen.queryByRole("alert")).toBeNull();
  await userEvent.click(save);
  await waitFor(() => expect(puts()).toHaveLength(2));
  answer();
  await waitFor(() => expect(save).toBeDisabled());
  expect(field).toHaveValue("14");
  expect(await puts()[1]?.json()).toEqual({ quotas: { A100: 14 }, before: { A100: 12 } });
});

test("a server of an older version that refuses a field of the page says what to do", async () => {
  serve({
    ...read,
    "PUT /virtual-clusters/vision/quotas": refusal(400, "invalid", "Some fields are not valid.", {
      fields: { quotas: ["Unknown field."] },
    }),
  });
  await change("12");
  expect(await screen.findByRole("alert")).toHaveTextContent("Reload the page and try again.");
});

test("what the cluster has and others own is not said to be 0 while it is not known", async () => {
  serve({ ...read, "GET /cluster": refusal(503, "database_away", "The database is away.") });
  renderPage(<QuotaForm vc={vc} />);
  expect(await screen.findByRole("alert")).toHaveTextContent("The database is away.");
  const field = screen.getByRole("textbox", { name: "A100" });
  expect(field).toHaveAccessibleDescription("2 in use; others own 0");
});
