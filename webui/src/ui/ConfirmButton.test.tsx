import { MantineProvider } from "@mantine/core";
import { fireEvent, render, screen } from "@testing-library/react";
import { useState } from "react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { Confirm, ConfirmButton } from "./ConfirmButton";

async function ask() {
  const onConfirm = vi.fn();
  renderPage(
    <ConfirmButton
      question="Stop train?"
      explanation="It cannot go on."
      verb="Stop it"
      onConfirm={onConfirm}
    >
      Stop
    </ConfirmButton>,
  );
  await userEvent.click(await screen.findByRole("button", { name: "Stop" }));
  await screen.findByRole("dialog", { name: "Stop train?" });
  return onConfirm;
}

test("nothing happens before the answer", async () => {
  expect(await ask()).not.toHaveBeenCalled();
});

test("yes does it", async () => {
  const onConfirm = await ask();
  await userEvent.click(screen.getByRole("button", { name: "Stop it" }));
  expect(onConfirm).toHaveBeenCalledOnce();
});

test("Escape is a no", async () => {
  const onConfirm = await ask();
  await userEvent.keyboard("{Escape}");
  expect(screen.queryByRole("dialog")).toBeNull();
  expect(onConfirm).not.toHaveBeenCalled();
});

function Asking({ onConfirm }: { onConfirm: () => void }) {
  const [open, setOpen] = useState(true);
  const close = () => setOpen(false);
  return (
    <Confirm
      open={open}
      question="Stop train?"
      explanation=""
      verb="Stop it"
      onConfirm={onConfirm}
      onClose={close}
    />
  );
}

test("a double click does it once, also while the dialog fades away", async () => {
  const onConfirm = vi.fn();
  // Without env="test", which has no transitions.
  render(<Asking onConfirm={onConfirm} />, { wrapper: MantineProvider });
  const button = await screen.findByRole("button", { name: "Stop it" });
  fireEvent.click(button);
  fireEvent.click(button);
  expect(onConfirm).toHaveBeenCalledOnce();
});
