import { getRouteApi, Link, Outlet } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { Mark } from "../ui/mark";
import { Refused } from "../ui/refused";
import { AccountMenu } from "./account-menu";

const route = getRouteApi("/inside/admin");

/** The frame of the screens about the whole service, for SuperAdmins. */
export function AdminFrame() {
  const texts = useTexts();
  const { user } = route.useRouteContext();
  return (
    <div className="shell">
      <a className="skip" href="#content">
        {texts.menu.skip}
      </a>
      <header className="sidebar">
        <p className="brand">
          <Mark /> {texts.appName}
        </p>
        <nav aria-label={texts.menu.label}>
          <Link to="/admin/organizations">{texts.admin.organizations}</Link>
          <Link to="/admin/users">{texts.admin.users}</Link>
          <Link to="/admin/health">{texts.admin.health}</Link>
          <Link to="/">{texts.toFleet}</Link>
        </nav>
        <AccountMenu name={user.name} rights="SuperAdmin" />
      </header>
      <main id="content" tabIndex={-1}>
        {user.isSuperAdmin ? <Outlet /> : <Refused rights="SuperAdmin" />}
      </main>
    </div>
  );
}
