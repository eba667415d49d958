import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";
import { DocumentationLink } from "./Documentation";
import css from "./PageHeader.module.css";

interface Props {
  title: string;
  above?: ReactNode;
  note?: ReactNode;
  children?: ReactNode;
}

/** The bar at the top of a page: where one is on the left, what one can do on the right. */
export function PageHeader({ title, above, note, children }: Props) {
  useDocumentTitle(`${title} · Skep`);
  return (
    <header className={css.header}>
      <div className={css.where}>
        {above}
        <h1 className={css.title}>{title}</h1>
        {note ? <span className={css.note}>{note}</span> : null}
      </div>
      <div className={css.actions}>
        {children}
        <DocumentationLink className={css.documentation} />
      </div>
    </header>
  );
}
