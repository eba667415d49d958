import { Link } from "@tanstack/react-router";
import css from "./JobsCrumb.module.css";

/** The way up from a page about one job. */
export function JobsCrumb() {
  return (
    <>
      <Link to="/jobs" className={css.up}>
        Jobs
      </Link>
      <span className={css.slash}>/</span>
    </>
  );
}
