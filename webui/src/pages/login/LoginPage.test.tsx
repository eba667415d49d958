import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { serve } from "@/test/server";
import { SingleSignOn } from "./SingleSignOn";

const platform = { name: "Skep", version: "1", sso_name: "Example ID", password_login: true };

test("single sign-on is offered where the server has it, and leads back to the page", async () => {
  serve({});
  renderPage(<SingleSignOn platform={platform} next="/jobs?vc=a" refused={undefined} />);
  const button = await screen.findByRole("link", { name: "Log in with Example ID" });
  expect(button).toHaveAttribute("href", "/api/v1/auth/sso/start?next=%2Fjobs%3Fvc%3Da");
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a refusal is shown by its code, and text of the address is not", async () => {
  serve({});
  renderPage(<SingleSignOn platform={platform} next={undefined} refused="account_exists" />);
  expect(await screen.findByRole("alert")).toHaveTextContent("An account with your user name");
});

test("an unknown code gives a sentence of our own", async () => {
  serve({});
  renderPage(<SingleSignOn platform={undefined} next={undefined} refused="Call 555-1234" />);
  expect(await screen.findByRole("alert")).toHaveTextContent(
    "The login by single sign-on failed; try again.",
  );
});
