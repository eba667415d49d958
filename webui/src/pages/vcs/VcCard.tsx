import { Link } from "@tanstack/react-router";
import type { VirtualCluster } from "@/api/types";
import { count } from "@/format/size";
import { QuotaBars } from "./QuotaBars";
import css from "./VcCard.module.css";

export function VcCard({ vc }: { vc: VirtualCluster }) {
  const page = { to: "/virtual-clusters/$name", params: { name: vc.name } } as const;
  return (
    <li className={css.card}>
      <header className={css.head}>
        <Link {...page} className={css.name}>
          {vc.name}
        </Link>
        {vc.role ? <span className={css.role}>{vc.role}</span> : null}
      </header>
      {vc.description ? <p className={css.about}>{vc.description}</p> : null}
      <QuotaBars vc={vc} />
      <footer className={css.foot}>
        <Link {...page} search={{ tab: "queue" }} className={css.link}>
          Queue
        </Link>
        <Link {...page} search={{ tab: "members" }} className={css.link}>
          {count(vc.members, "member")}
        </Link>
        <Link to="/jobs" search={{ vc: vc.name }} className={css.link}>
          Its jobs
        </Link>
      </footer>
    </li>
  );
}
