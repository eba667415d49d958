import { Link } from "@tanstack/react-router";
import css from "./JobsBreadcrumb.module.css";

/** The way up from a page about one job. */
export function JobsBreadcrumb() {
  return (
    <>
      <Link to="/jobs" className={css.up}>
        Jobs
      </Link>
      <span className={css.slash}>/</span>
    </>
  );
}
