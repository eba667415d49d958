import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { SshKeys } from "./SshKeys";

const row = {
  id: "k1",
  name: "ann@laptop",
  public_key: "ssh-ed25519 AAAA",
  fingerprint: "SHA256:abc",
  created_at: "2026-01-01T00:00:00Z",
};

test("a pasted key is named by its comment and added", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({ "GET /me/ssh-keys": { keys: [] }, "POST /me/ssh-keys": row });
  renderPage(<SshKeys />);
  await userEvent.click(await screen.findByRole("button", { name: "Add a key" }));
  await userEvent.click(await screen.findByLabelText(/Public key/));
  await userEvent.paste("ssh-ed25519 AAAA ann@laptop\n");
  expect(screen.getByLabelText<HTMLInputElement>(/Name/).value).toBe("ann@laptop");
  await userEvent.click(screen.getByRole("button", { name: "Add" }));
  await waitFor(() => expect(screen.queryByLabelText(/Public key/)).toBeNull());
  const post = requests.find((request) => request.method === "POST");
  expect(await post?.json()).toEqual({
    name: "ann@laptop",
    public_key: "ssh-ed25519 AAAA ann@laptop",
  });
});

test("a key is shown by its fingerprint and removed after a question", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({ "GET /me/ssh-keys": { keys: [row] }, "DELETE /me/ssh-keys/k1": null });
  renderPage(<SshKeys />);
  await screen.findByText("ssh-ed25519 SHA256:abc");
  await userEvent.click(screen.getByRole("button", { name: "Remove the key ann@laptop" }));
  await userEvent.click(await screen.findByRole("button", { name: "Remove" }));
  await waitFor(() => expect(requests.some((request) => request.method === "DELETE")).toBe(true));
});
