import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { VirtualCluster } from "@/api/types";
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
const read = { "GET /virtual-clusters": page, "GET /cluster": cluster };

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
  expect(await put?.json()).toEqual({ quotas: { A100: 12 } });
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
