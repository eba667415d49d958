import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { LoginForm } from "@/features/auth/LoginForm";
import { renderPage } from "@/test/render";
import { refusal, serve } from "@/test/server";
import { SecondFactor } from "./SecondFactor";

const off = {
  enabled: false,
  by_policy: false,
  enabled_at: null,
  last_used_at: null,
  recovery_codes_left: 0,
};

test("setting up goes from the password over the key to the recovery codes", async () => {
  document.cookie = "skep_csrf=x";
  const requests = serve({
    "GET /me/mfa": off,
    "POST /me/mfa/start": { key: "ABCDEFGH", url: "otpauth://x", qr_path: "M0 0h1v1z" },
    "POST /me/mfa/confirm": { recovery_codes: ["1111111111", "2222222222"] },
  });
  renderPage(<SecondFactor />);
  await userEvent.click(await screen.findByRole("button", { name: "Set up" }));
  await userEvent.type(await screen.findByLabelText("Your password"), "secret");
  await userEvent.click(screen.getByRole("button", { name: "Continue" }));
  expect(await screen.findByRole("img", { name: "QR code of the key" })).toBeVisible();
  expect(screen.getByText("ABCDEFGH")).toBeVisible();
  await userEvent.type(screen.getByLabelText("Code"), "123456");
  await userEvent.click(screen.getByRole("button", { name: "Confirm" }));
  expect(await screen.findByLabelText("Recovery codes")).toHaveTextContent("1111111111 2222222222");
  const confirmed = requests.find((request) => request.url.endsWith("/confirm"));
  expect(await confirmed?.json()).toEqual({ code: "123456" });
});

test("the login asks for the code only where the server does", async () => {
  document.cookie = "skep_csrf=x";
  serve({
    "POST /auth/login": () => refusal(401, "mfa_required", "Enter the code."),
  });
  renderPage(<LoginForm onEntered={() => undefined} />);
  expect(screen.queryByLabelText("Code")).toBeNull();
  await userEvent.type(await screen.findByLabelText("User name"), "ann");
  await userEvent.type(screen.getByLabelText("Password"), "secret");
  await userEvent.click(screen.getByRole("button", { name: "Log in" }));
  expect(await screen.findByLabelText("Code")).toHaveFocus();
  expect(screen.queryByRole("alert")).toBeNull();
});
