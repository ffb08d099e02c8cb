import { getRouteApi, Link, Outlet } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { Frame } from "../ui/frame";
import { Refused } from "../ui/refused";
import { AccountMenu } from "./account-menu";

const route = getRouteApi("/inside/admin");

/** The frame of the screens about the whole service, for SuperAdmins. */
export function AdminFrame() {
  const texts = useTexts();
  const { user } = route.useRouteContext();
  return (
    <Frame
      menu={
        <>
          <Link to="/admin/organizations">{texts.admin.organizations}</Link>
          <Link to="/admin/users">{texts.admin.users}</Link>
          <Link to="/admin/templates">{texts.templates.title}</Link>
          <Link to="/admin/sandbox">{texts.admin.sandbox}</Link>
          <Link to="/admin/notifications">{texts.admin.notifications}</Link>
          <Link to="/admin/cache">{texts.admin.cache}</Link>
          <Link to="/admin/keys">{texts.admin.keys}</Link>
          <Link to="/admin/health">{texts.admin.health}</Link>
          <Link to="/">{texts.toFleet}</Link>
        </>
      }
      account={<AccountMenu name={user.name} rights="SuperAdmin" />}
    >
      {user.isSuperAdmin ? <Outlet /> : <Refused rights="SuperAdmin" />}
    </Frame>
  );
}
