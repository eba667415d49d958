import type { ReactNode } from "react";
import { createPortal } from "react-dom";
import css from "./HoverCard.module.css";

const HEIGHT = 200;

interface Props {
  place: DOMRect;
  /** In pixels. */
  width?: number;
  children: ReactNode;
}

/** Details beside what the pointer or the focus is on; they take no clicks. */
export function HoverCard({ place, width = 300, children }: Props) {
  const below = place.bottom + HEIGHT < innerHeight;
  const left = Math.min(Math.max(8, place.left - 24), innerWidth - width - 8);
  const style = below
    ? { top: place.bottom + 8, left, width }
    : { bottom: innerHeight - place.top + 8, left, width };
  return createPortal(
    <div className={css.card} style={style} role="tooltip">
      {children}
    </div>,
    document.body,
  );
}

/** One line of details; nothing when there is nothing to say. */
export function Detail({ name, children }: { name: string; children: ReactNode }) {
  if (children === null || children === "") return null;
  return (
    <div className={css.detail}>
      <span>{name}</span>
      <span>{children}</span>
    </div>
  );
}
