import { Link } from "@tanstack/react-router";
import { Breadcrumb } from "@/ui/Breadcrumb";

/** The way up from a page about one job. */
export function JobsBreadcrumb() {
  return (
    <Breadcrumb>
      <Link to="/jobs">Jobs</Link>
    </Breadcrumb>
  );
}
