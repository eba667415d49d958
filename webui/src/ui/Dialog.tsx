import { Modal, type ModalProps } from "@mantine/core";
import { useEffect, useState } from "react";

/** A dialog over the page. Mantine's returns the focus when `opened` changes; most of ours are
 * mounted opened and unmounted to close them, and then the focus returns here. */
export function Dialog(props: ModalProps) {
  const [opener] = useState(() => (props.opened ? document.activeElement : null));
  useEffect(() => () => returnFocus(opener), [opener]);
  return <Modal centered {...props} />;
}

/** To what opened the dialog. An item of a menu or popover is gone with it by then: to its button. */
function returnFocus(opener: Element | null): void {
  const held = document.activeElement;
  if (opener === null || (held !== null && held !== document.body)) return;
  const target = opener.isConnected ? opener : buttonOf(opener);
  if (target instanceof HTMLElement) target.focus({ preventScroll: true });
}

function buttonOf(item: Element): Element | null {
  const id = item.closest("[role=menu], [role=dialog]")?.getAttribute("aria-labelledby");
  return id ? document.getElementById(id) : null;
}
