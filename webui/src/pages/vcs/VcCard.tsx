import { Link } from "@tanstack/react-router";
import type { VirtualCluster } from "@/api/types";
import { count } from "@/format/size";
import { QuotaBars } from "./QuotaBars";
import css from "./VcCard.module.css";

export function VcCard({ vc, onOpen }: { vc: VirtualCluster; onOpen: () => void }) {
  return (
    <li className={css.card}>
      <header className={css.head}>
        <button type="button" className={css.name} onClick={onOpen}>
          {vc.name}
        </button>
        {vc.role ? <span className={css.role}>{vc.role}</span> : null}
      </header>
      {vc.description ? <p className={css.about}>{vc.description}</p> : null}
      <QuotaBars vc={vc} />
      <footer className={css.foot}>
        <button type="button" className={css.link} onClick={onOpen}>
          {count(vc.members, "member")}
        </button>
        <Link to="/jobs" search={{ vc: vc.name }} className={css.link}>
          Its jobs
        </Link>
      </footer>
    </li>
  );
}
