import { Menu } from "@mantine/core";
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { expect, test } from "vitest";
import { renderPage } from "@/test/render";
import { FormDialog } from "./FormDialog";

const NOTHING = { isPending: false, error: null, mutate: () => undefined };

/** As pages open most dialogs: they are mounted opened, and unmounted to close them. */
function Page() {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button onClick={() => setOpen(true)}>New token</button>
      <Menu>
        <Menu.Target>
          <button>Clone</button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => setOpen(true)}>Save as template</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {open ? (
        <FormDialog
          open
          title="Name it"
          verb="Save"
          mutation={NOTHING}
          onClose={() => setOpen(false)}
        >
          <input aria-label="Name" data-autofocus />
        </FormDialog>
      ) : null}
    </>
  );
}

async function openAndClose() {
  await waitFor(() => expect(screen.getByRole("textbox", { name: "Name" })).toHaveFocus());
  await userEvent.keyboard("{Escape}");
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
}

test("a dialog that closes gives the focus back to the button that opened it", async () => {
  renderPage(<Page />);
  const button = await screen.findByRole("button", { name: "New token" });
  await userEvent.click(button);
  await openAndClose();
  await waitFor(() => expect(button).toHaveFocus());
});

test("a dialog that an item of a menu opened gives the focus back to the menu's button", async () => {
  renderPage(<Page />);
  const button = await screen.findByRole("button", { name: "Clone" });
  await userEvent.click(button);
  await userEvent.click(await screen.findByRole("menuitem", { name: "Save as template" }));
  await openAndClose();
  await waitFor(() => expect(button).toHaveFocus());
});
