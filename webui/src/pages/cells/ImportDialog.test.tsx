import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import type { CheckedAssignment } from "@/api/types";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { ImportDialog } from "./ImportDialog";

const good: CheckedAssignment = {
  revision: 1,
  fits: true,
  errors: [],
  left: [{ chain: "DGX", type: "DGX", total: 2, left: 1 }],
  downgraded: [{ job_id: "j1", name: "bert", virtual_cluster: "vision", reason: null }],
  restored: [],
  shortfalls: [],
  problems: [],
};
const path = "virtualClusters.vc1.virtualCells[0].cellType";
const error = { code: "bad_file", message: "There is no cell type DGY.", path, details: {} };

async function check(request: Request): Promise<CheckedAssignment> {
  const wrong = (await request.text()).includes("DGY");
  return wrong ? { ...good, fits: false, errors: [error] } : good;
}

const importButton = () => screen.getByRole("button", { name: "Import" });

beforeEach(() => {
  document.cookie = "skep_csrf=x";
});

test("every mistake is shown with its path, and such a file cannot be imported", async () => {
  serve({ "POST /cells/hived/check": check });
  renderPage(<ImportDialog open onClose={vi.fn()} />);
  await userEvent.type(await screen.findByRole("textbox"), "cellType: DGY");
  expect(await screen.findByText(path)).toBeVisible();
  expect(screen.getByText(error.message)).toBeVisible();
  expect(importButton()).toBeDisabled();
});

test("a chosen file is checked, its effects are shown, and it is sent as it is", async () => {
  const requests = serve({ "POST /cells/hived/check": check, "PUT /cells/hived": good });
  const onClose = vi.fn();
  renderPage(<ImportDialog open onClose={onClose} />);
  await screen.findByRole("textbox");
  const input = document.querySelector("input[type=file]") as HTMLInputElement;
  await userEvent.upload(input, new File(["cellType: DGX\n"], "hivedscheduler.yaml"));
  expect(await screen.findByText(/1 running job would go on as opportunistic: bert/)).toBeVisible();
  await userEvent.click(screen.getByRole("checkbox"));
  await waitFor(() => expect(importButton()).toBeEnabled());
  await userEvent.click(importButton());
  await waitFor(() => expect(onClose).toHaveBeenCalled());
  const put = requests.find((request) => request.method === "PUT");
  expect(await put?.text()).toBe("cellType: DGX\n");
  expect(put?.headers.get("Content-Type")).toBe("text/yaml");
  expect(new URL(put?.url ?? "").searchParams.get("assign")).toBe("true");
});
