import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { RegistryCredentials } from "./RegistryCredentials";

const row = {
  registry: "registry.example.org",
  username: "robot",
  created_at: "2026-01-01T00:00:00Z",
  updated_at: "2026-01-01T00:00:00Z",
};
const page = (...results: unknown[]) => ({ results, next: null, previous: null });

test("credentials are stored for the host of an address", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({
    "GET /me/registry-credentials": page(),
    "PUT /me/registry-credentials/registry.example.org": row,
  });
  renderPage(<RegistryCredentials />);
  await userEvent.click(await screen.findByRole("button", { name: "Add a registry" }));
  await userEvent.type(
    await screen.findByLabelText("Registry"),
    "https://registry.example.org/v2/",
  );
  await userEvent.type(screen.getByLabelText("User name"), "robot");
  await userEvent.type(screen.getByLabelText("Password or token"), "s3cret");
  await userEvent.click(screen.getByRole("button", { name: "Store" }));
  await waitFor(() => expect(screen.queryByLabelText("Registry")).toBeNull());
  const put = requests.find((request) => request.method === "PUT");
  expect(await put?.json()).toEqual({ username: "robot", password: "s3cret" });
});

test("those of a virtual cluster are removed after a question", async () => {
  document.cookie = "skep_csrf=x";
  const path = "/virtual-clusters/vision/registry-credentials";
  const requests = serve({
    [`GET ${path}`]: page(row),
    [`DELETE ${path}/registry.example.org`]: {},
  });
  renderPage(<RegistryCredentials vc="vision" />);
  const name = "Remove the credentials for registry.example.org";
  await userEvent.click(await screen.findByRole("button", { name }));
  expect(requests.some((request) => request.method === "DELETE")).toBe(false);
  await userEvent.click(await screen.findByRole("button", { name: "Remove" }));
  await waitFor(() => expect(requests.some((request) => request.method === "DELETE")).toBe(true));
});
