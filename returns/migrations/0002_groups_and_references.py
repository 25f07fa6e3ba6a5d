"""The groups people belong to, and short references that start at a number easy to say."""

from django.db import migrations

from returns.permissions import GROUPS


def create_groups(apps, _schema_editor):
    group = apps.get_model("auth", "Group")
    for name in GROUPS:
        group.objects.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [("returns", "0001_initial"), ("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        migrations.RunPython(create_groups, migrations.RunPython.noop),
        migrations.RunSQL(
            "ALTER SEQUENCE returns_refundoperation_id_seq RESTART WITH 1001",
            migrations.RunSQL.noop,
        ),
    ]
