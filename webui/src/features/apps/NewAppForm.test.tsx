import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { aUser } from "@/test/rows";
import { serve } from "@/test/server";
import { NewAppForm } from "./NewAppForm";

test.each(["GPUs", "CPU cores", "Memory in MiB"])(
  "a lone sign or point is no number of %s, and is not sent",
  async (label) => {
    document.cookie = "skep_csrf=x";
    const requests = serve({ "GET /me": aUser() });
    renderPage(<NewAppForm onClose={() => undefined} />);
    await userEvent.type(await screen.findByRole("combobox", { name: /^Image/ }), "base");
    const field = screen.getByRole("textbox", { name: label });
    await userEvent.clear(field);
    await userEvent.type(field, "-.{Enter}");
    expect(field).toHaveValue("");
    expect(requests.filter(({ method }) => method === "POST")).toHaveLength(0);
  },
);
